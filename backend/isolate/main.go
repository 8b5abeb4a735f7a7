package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/tensor"
)

// Main is `neso isolate`: a worker that serves one instance of a model by one
// of the drivers, over the inherited descriptors 3 and 4. It returns the exit
// status.
func Main(drivers []backend.Driver) int {
	control, descriptors, err := channel.Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, "neso isolate is started by the server:", err)
		return 1
	}
	dieBySignal()
	g := &handler{
		drivers: drivers, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		memory: memory.New(memory.Options{}),
	}
	g.guest = guest.New(control, descriptors, g)
	if err := g.guest.Serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Confine is `neso confine`: it becomes a worker that the server has described in
// an inherited descriptor, with the user and the limits that it says. It returns
// the exit status of a failure.
func Confine() int {
	fmt.Fprintln(os.Stderr, "neso confine:", process.Confine())
	return 1
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{} // the server's log has it
	}
	return a
}

// handler is the worker: at most one model with one instance.
type handler struct {
	drivers  []backend.Driver
	log      *slog.Logger
	memory   *memory.Pool
	backend  backend.Backend
	model    backend.Model
	instance backend.Instance
	serves   guest.Instance
	guest    *guest.Guest
	many     bool // the model gives any number of responses: see served.go
}

// Call implements worker.GuestHandler.
func (g *handler) Call(kind wire.Kind, _ uint32, body json.RawMessage) (any, error) {
	switch kind {
	case wire.KindLoad:
		return g.load(body)
	case wire.KindInit:
		return nil, g.init(body)
	default:
		g.Exit()
		return nil, nil
	}
}

func (g *handler) load(body json.RawMessage) (any, error) {
	var l loadBody
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(g.drivers, func(d backend.Driver) bool { return d.Name == l.Backend })
	if at < 0 {
		return nil, backend.Errorf(backend.Unsupported, "the worker has no backend '%s': is it of the same version as the server?", l.Backend)
	}
	ctx := context.Background()
	var err error
	if g.backend, err = g.drivers[at].Open(ctx, host{g}, l.Settings); err != nil {
		return nil, err
	}
	if !l.Complete {
		return loaded{}, nil
	}
	config, err := g.backend.Complete(ctx, l.View)
	return loaded{Config: config}, err
}

func (g *handler) init(body json.RawMessage) error {
	var i initBody
	if err := json.Unmarshal(body, &i); err != nil {
		return err
	}
	if g.backend == nil || g.instance != nil {
		return backend.Errorf(backend.Internal, "worker protocol: INIT comes once, after LOAD")
	}
	ctx := context.Background()
	var err error
	if g.model, err = g.backend.Load(ctx, i.View); err != nil {
		return err
	}
	if g.instance, err = g.model.NewInstance(ctx, i.Instance); err != nil {
		return err
	}
	if i.View.Decoupled {
		g.many = true
		return g.attach(&i)
	}
	g.serves = guest.Instance{
		Tables: wire.Tables{Inputs: i.Inputs, Outputs: i.Outputs}, Whole: len(i.View.Scattered) > 0, InlineLimit: segment.DefaultInlineLimit,
		Execute: func(b *backend.Batch) error { return g.instance.Execute(ctx, b) },
	}
	return nil
}

// Instance implements worker.GuestHandler.
func (g *handler) Instance(number uint32) (guest.Instance, bool) {
	return g.serves, number == 0 && g.instance != nil && !g.many
}

// Exit implements worker.GuestHandler. The end of the process frees the rest.
func (g *handler) Exit() {
	if g.instance != nil {
		_ = g.instance.Close()
		g.instance = nil
	}
	if g.model != nil {
		_ = g.model.Close()
		g.model = nil
	}
	if g.backend != nil {
		_ = g.backend.Close()
		g.backend = nil
	}
}

// host is the server as a backend in a worker sees it: memory and a log.
type host struct{ g *handler }

func (h host) Allocator() tensor.Allocator { return h.g.memory }
func (h host) Logger() *slog.Logger        { return h.g.log }

var errAlone = backend.Errorf(backend.Unsupported, "an isolated backend has no way to other models")

func (host) Infer(*backend.Request) error                                  { return errAlone }
func (host) Load(context.Context, string, string, map[string][]byte) error { return errAlone }
func (host) Unload(context.Context, string, bool) error                    { return errAlone }
func (host) Ready(string, int64) bool                                      { return false }
func (host) Activity(string, string, int64)                                {}
func (host) Document(backend.Question) ([]byte, error)                     { return nil, errAlone }
