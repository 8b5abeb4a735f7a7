package native

import (
	"context"
	"debug/elf"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native/host"
)

// paramBatching names a library that says which requests come into a batch.
const paramBatching = "TRITON_BATCH_STRATEGY_PATH"

const batchingLibrary = "batchstrategy.so"

// batchingEntries are the functions of such a library: all, or none.
var batchingEntries = []string{
	"TRITONBACKEND_ModelBatcherInitialize", "TRITONBACKEND_ModelBatcherFinalize", "TRITONBACKEND_ModelBatchInitialize",
	"TRITONBACKEND_ModelBatchIncludeRequest", "TRITONBACKEND_ModelBatchFinalize",
}

// joinLimit is how long a library may take to say which requests join a batch.
const joinLimit = time.Second

// batching finds the library that says which requests of a model come into a batch; the
// zero value where there is none. Clients see its errors.
func (d *driver) batching(cfg *backend.Config, own library) (library, error) {
	var c struct {
		Dynamic  *json.RawMessage `json:"dynamic_batching"`
		Sequence *json.RawMessage `json:"sequence_batching"`
	}
	_ = json.Unmarshal(cfg.JSON, &c) // it is the server's own
	named, ok := cfg.Parameters[paramBatching]
	if ok && c.Sequence != nil {
		return library{}, backend.Errorf(backend.InvalidArg,
			"%s cannot be specified with sequence batcher, using default batching strategy", paramBatching)
	}
	var path string
	var err error
	switch {
	case c.Sequence != nil:
		return library{}, nil
	case ok:
		path, err = namedStrategy(cfg.Directory, named)
	default:
		path = find([]string{cfg.VersionDirectory, cfg.Directory}, d.settings.Directory, cfg.Backend, batchingLibrary)
		if path == "" && len(missing(own.path)) == 0 {
			path = own.path
		}
		if path != "" {
			path, err = filepath.Abs(path)
		}
	}
	if path == "" || err != nil {
		return library{}, err
	}
	return d.strategy(cfg, own, path, c.Dynamic != nil)
}

// strategy looks at the library that was found.
func (d *driver) strategy(cfg *backend.Config, own library, path string, dynamic bool) (library, error) {
	lib := library{path: path, folder: filepath.Dir(path)}
	if err := lib.read(); err != nil {
		return library{}, err
	}
	lacks := missing(path)
	switch {
	case len(lacks) == len(batchingEntries):
		d.log.Warn("the batching library has no effect: it defines none of the functions of one", slog.String("model", cfg.Name),
			slog.String("library", path))
		return library{}, nil
	case len(lacks) > 0:
		return library{}, backend.Errorf(backend.InvalidArg,
			"%s does not define all required custom batching functions for model %s: it lacks %s", path, cfg.Name, strings.Join(lacks, ", "))
	case !dynamic:
		if path != own.path {
			d.log.Warn("the batching library has no effect: the model has no dynamic_batching", slog.String("model", cfg.Name),
				slog.String("library", path))
		}
		return library{}, nil
	}
	return lib, nil
}

// namedStrategy is the library that the parameter names: a relative path begins at the
// server's working directory or, failing that, at the model's.
func namedStrategy(model, path string) (string, error) {
	inside := func(p string) bool {
		rel, err := filepath.Rel(model, p)
		return err == nil && filepath.IsLocal(rel)
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if model, err = filepath.Abs(model); err != nil {
		return "", err
	}
	if !inside(at) && !filepath.IsAbs(path) {
		at = filepath.Join(model, path)
	}
	if !inside(at) {
		return "", backend.Errorf(backend.InvalidArg, "Batching library path escapes model repository.")
	}
	info, err := os.Stat(at)
	if err != nil || !info.Mode().IsRegular() {
		return "", backend.Errorf(backend.NotFound, "Batching library path not found: %s", path)
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", err
	}
	if root, err := filepath.EvalSymlinks(model); err == nil {
		model = root
	}
	if !inside(real) {
		return "", backend.Errorf(backend.InvalidArg, "Batching library path escapes model repository.")
	}
	return at, nil
}

// missing are the functions of a batching library that a library lacks.
func missing(path string) []string {
	f, err := elf.Open(path)
	if err != nil {
		return batchingEntries
	}
	defer f.Close()
	symbols, _ := f.DynamicSymbols() // a library without any lacks all
	return slices.DeleteFunc(slices.Clone(batchingEntries), func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF })
	})
}

// batcher is a model's batching library in its process.
type batcher struct {
	library library
	number  uint32 // in the process, 0 before the first instance

	mu     sync.Mutex
	at     *worker.Instance // in the process that lives, or lived last
	busy   bool             // it has a question
	failed string           // what was logged last, "" since it has answered
}

// FormsBatches implements backend.BatchFormer.
func (m *model) FormsBatches() bool { return m.batcher != nil }

// Joins implements backend.BatchFormer. A process that is not there, a library that
// fails or hangs has no say: requests do not wait for it.
func (m *model) Joins(requests []*backend.Request) (int, error) {
	b := m.batcher
	n, err := b.join(requests, joinLimit)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if b.failed != "" {
			b.failed = ""
			m.driver.log.Info("the batching library has its say again", slog.String("model", m.cfg.Name))
		}
		return n, nil
	}
	if text := err.Error(); b.failed == "" {
		b.failed = text
		m.driver.log.Warn("the batching library has no say in the batches at present: the server forms them without it",
			slog.String("model", m.cfg.Name), slog.String("library", b.library.path), slog.String("reason", text))
	}
	return 0, err
}

// join puts the question to the library. Where the answer is late nobody waits for it,
// and no further question is put before it has come.
func (b *batcher) join(requests []*backend.Request, limit time.Duration) (int, error) {
	b.mu.Lock()
	at := b.at
	if b.busy || at == nil {
		b.mu.Unlock()
		return 0, backend.Errorf(backend.Unavailable, "it has not returned from an earlier call, or its process is being started")
	}
	b.busy = true
	b.mu.Unlock()
	q := &inquiry{answers: make([]answer, len(requests))}
	for k, r := range requests {
		r.Responder = &q.answers[k]
	}
	done := make(chan error, 1)
	go func() { // ends with the process at the latest
		err := at.Execute(context.Background(), &backend.Batch{Requests: requests, Size: len(requests)})
		b.mu.Lock()
		b.busy = false
		b.mu.Unlock()
		done <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			return 0, plain(err)
		}
		return q.joined()
	case <-timer.C:
		return 0, backend.Errorf(backend.Unavailable, "it did not return within %v", limit)
	}
}

// inquiry is a question to a batching library: a batch on an instance of its own, which
// answers each request by whether it joins.
type inquiry struct{ answers []answer }

// answer implements backend.Responder.
type answer struct {
	joins bool
	err   *backend.Error
}

// Respond implements backend.Responder.
func (a *answer) Respond(resp *backend.Response, _ bool) error {
	if resp != nil {
		a.err = resp.Err
		for k := range resp.Parameters {
			a.joins = a.joins || resp.Parameters[k].Name == host.Joins && resp.Parameters[k].IsTrue()
		}
		resp.Release()
	}
	return nil
}

// Cancelled implements backend.Responder.
func (a *answer) Cancelled() bool { return false }

func (q *inquiry) joined() (int, error) {
	for k := range q.answers {
		switch a := &q.answers[k]; {
		case a.err != nil:
			return 0, a.err
		case !a.joins:
			return max(1, k), nil
		}
	}
	return len(q.answers), nil
}

// init sends the INIT of a model's batching library, if it has one. It comes before
// those of the model's instances.
func (b *batcher) init(ctx context.Context, c *worker.Conn, m *model) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	b.at = nil
	b.mu.Unlock()
	body := host.Init{
		Model: m.number, Config: m.cfg.JSON, Inputs: m.tables.Inputs, Outputs: m.tables.Outputs, Batching: b.library.path,
	}
	if _, err := c.Load(ctx, wire.KindInit, b.number, body); err != nil {
		return plain(err)
	}
	at := c.Attach(worker.Instance{
		Number: b.number, Name: "batching library of " + m.cfg.Name, Tables: m.tables, Arena: m.arena, InlineLimit: segment.DefaultInlineLimit,
		Caller: backend.Caller{Model: m.cfg.Name, Version: m.cfg.Version},
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = at
	return nil
}

// end ends the library in its process, unless it has not returned from a call.
func (b *batcher) end(g *group, m *model) {
	if b == nil {
		return
	}
	b.mu.Lock()
	at, busy := b.at, b.busy
	b.at = nil
	b.mu.Unlock()
	if at == nil || busy {
		return
	}
	g.callLocked(wire.KindUnload, b.number, host.Unload{Of: m.number})
	at.Conn().Detach(at)
}
