//go:build unix

package bound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// server is a server that loads what is bound and keeps it.
type server struct {
	mu     sync.Mutex
	models map[string]served
	rules  string
}

type served struct {
	backend  backend.Backend
	model    backend.Model
	instance backend.Instance
}

func (s *server) BindBackend(ctx context.Context, name string, version int64, config []byte, b backend.Backend) ([]byte, error) {
	cfg := backend.Config{
		Name: name, Version: version, JSON: config, MaxBatchSize: 4,
		Inputs: []backend.IO{{Name: "IN"}}, Outputs: []backend.IO{{Name: "OUT"}},
	}
	m, err := b.Load(ctx, cfg)
	if err != nil {
		return nil, err
	}
	in, err := m.NewInstance(ctx, backend.InstanceConfig{Name: name + "_0_0"})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	s.mu.Lock()
	s.models[name] = served{b, m, in}
	s.mu.Unlock()
	return config, nil
}

func (s *server) UnbindBackend(_ context.Context, name string, _ int64, of backend.Backend) error {
	s.mu.Lock()
	m, ok := s.models[name]
	ok = ok && m.backend == of
	if ok {
		delete(s.models, name)
	}
	s.mu.Unlock()
	if !ok {
		return nil
	}
	return errors.Join(m.instance.Close(), m.model.Close())
}

func (s *server) Host() backend.Host           { return host{} }
func (s *server) Addresses() map[string]string { return map[string]string{"http": "h:1"} }

func (s *server) Rollout(model string) ([]byte, error) {
	return []byte(`{"model":"` + model + `","rules":"` + s.rules + `"}`), nil
}

func (s *server) SetRollout(_ context.Context, _ string, change []byte) error {
	if s.rules = string(change); s.rules == "bad" {
		return backend.Errorf(backend.InvalidArg, "they cannot hold")
	}
	return nil
}

func (s *server) get(name string) (served, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.models[name]
	return m, ok
}

type host struct{ backend.Host }

func (host) Allocator() tensor.Allocator { return nil }
func (host) Logger() *slog.Logger        { return slog.New(slog.DiscardHandler) }

// process is the other end, driven by a test.
type process struct {
	t           *testing.T
	control     *os.File
	descriptors *os.File
}

func pair(t *testing.T) (ours, theirs int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func newProcess(t *testing.T) (p *process, control, descriptors int) {
	t.Helper()
	c, theirs := pair(t)
	d, theirDescriptors := pair(t)
	p = &process{t, os.NewFile(uintptr(c), "control"), os.NewFile(uintptr(d), "descriptors")}
	t.Cleanup(p.close)
	return p, theirs, theirDescriptors
}

func (p *process) close() {
	_ = p.control.Close()
	_ = p.descriptors.Close()
}

func start(t *testing.T, o Options) (*Session, *process, *server) {
	t.Helper()
	srv := &server{models: map[string]served{}}
	o.Server = srv
	p, control, descriptors := newProcess(t)
	c, d, err := Inherit(control, descriptors)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(c, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.close()
		_ = s.UnbindAll(context.Background())
		s.Close()
	})
	return s, p, srv
}

func (p *process) send(kind wire.Kind, instance uint32, id uint64, v any) {
	p.t.Helper()
	var body []byte
	if v != nil {
		body, _ = json.Marshal(v)
	}
	frame, err := wire.AppendFrame(nil, kind, instance, id, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.descriptors.Write(frame); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) next() (wire.Header, []byte) {
	p.t.Helper()
	head := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(p.control, head); err != nil {
		p.t.Fatal(err)
	}
	h, err := wire.ParseHeader(head)
	if err != nil {
		p.t.Fatal(err)
	}
	body := make([]byte, h.Length)
	if _, err := io.ReadFull(p.control, body); err != nil {
		p.t.Fatal(err)
	}
	return h, body
}

// call sends an order and answers INIT and UNLOAD until its own answer comes.
func (p *process) call(kind wire.Kind, id uint64, v any) (ready bool, text string) {
	p.t.Helper()
	p.send(kind, 0, id, v)
	for {
		h, body := p.next()
		switch h.Kind {
		case wire.KindInit, wire.KindUnload:
			p.send(wire.KindReady, h.Instance, h.ID, struct{}{})
		default:
			return h.Kind == wire.KindReady, string(body)
		}
	}
}

func binding(edit func(map[string]any)) map[string]any {
	b := map[string]any{
		"name": "m", "version": 1, "config": map[string]any{"max_batch_size": 4}, "binding": 1, "instances": 1,
		"shape": "batch", "timeout_us": 0,
	}
	if edit != nil {
		edit(b)
	}
	return b
}

func TestSession(t *testing.T) {
	stopped := make(chan struct{})
	s, p, srv := start(t, Options{Stop: func() { close(stopped) }})
	if ready, text := p.call(wire.KindControl, 1, map[string]string{"op": "server"}); !ready || !strings.Contains(text, "h:1") {
		t.Errorf("server: %s", text)
	}
	for i, c := range []struct {
		change any
		ready  bool
		says   string
	}{
		{nil, true, `{"model":"m","rules":""}`},
		{"new", true, `{"model":"m","rules":"new"}`},
		{"bad", false, "they cannot hold"},
		{7, false, "CONTROL: json"},
	} {
		ready, text := p.call(wire.KindControl, 20+uint64(i), map[string]any{"op": "rollout", "model": "m", "change": c.change})
		if ready != c.ready || !strings.Contains(text, c.says) {
			t.Errorf("rollout %v: %v %s, want %v %s", c.change, ready, text, c.ready, c.says)
		}
	}
	if ready, text := p.call(wire.KindBind, 2, binding(nil)); !ready || !strings.Contains(text, "max_batch_size") {
		t.Fatalf("BIND: %s", text)
	}
	m, _ := srv.get("m")
	if err := m.model.Ready(); err != nil {
		t.Error(err)
	}
	if c := m.backend.Capabilities(); !c.Gather || c.Lingers || c.Count != 1 {
		t.Errorf("%+v", c)
	}
	if ready, text := p.call(wire.KindUnbind, 3, map[string]any{"name": "m", "version": 1}); !ready {
		t.Errorf("UNBIND: %s", text)
	}
	if ready, _ := p.call(wire.KindUnbind, 4, map[string]any{"name": "m", "version": 1}); ready {
		t.Error("UNBIND twice")
	}
	if ready, text := p.call(wire.KindBind, 5, binding(nil)); !ready {
		t.Fatal(text)
	}
	if ready, _ := p.call(wire.KindControl, 6, map[string]string{"op": "stop"}); !ready {
		t.Error("stop")
	}
	<-stopped
	m, _ = srv.get("m")
	p.close()
	<-s.Done()
	if err := m.model.Ready(); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("ready after the end: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after an orderly end: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	_, p, _ := start(t, Options{})
	for i, edit := range []func(map[string]any){
		func(b map[string]any) { b["version"] = 0 },
		func(b map[string]any) { b["instances"] = 0 },
		func(b map[string]any) { b["instances"] = 1 << 30 },
		func(b map[string]any) { b["shape"] = "round" },
		func(b map[string]any) { b["timeout_us"] = -1 },
		func(b map[string]any) { b["config"] = []int{1} },
		func(b map[string]any) { b["name"] = 7 },
		func(b map[string]any) { b["config"] = map[string]any{"max_batch_size": 0} }, // the server of the test says 4
	} {
		if ready, text := p.call(wire.KindBind, uint64(i+1), binding(edit)); ready {
			t.Errorf("case %d: %s", i, text)
		}
	}
	for _, op := range []string{"stop", "dance"} {
		if ready, _ := p.call(wire.KindControl, 90, map[string]string{"op": op}); ready {
			t.Errorf("%s was allowed", op)
		}
	}
}

type responder chan *backend.Response

func (r responder) Respond(resp *backend.Response, _ bool) error { r <- resp; return nil }
func (responder) Cancelled() bool                                { return false }

func TestDeathInABatch(t *testing.T) {
	_, p, srv := start(t, Options{})
	if ready, text := p.call(wire.KindBind, 1, binding(nil)); !ready {
		t.Fatal(text)
	}
	m, _ := srv.get("m")
	in := tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1}, Data: []byte{7}}
	batch := &backend.Batch{
		Size: 1, Inputs: []tensor.Tensor{in},
		Requests: []*backend.Request{{Inputs: []tensor.Tensor{in}, BatchSize: 1, Responder: make(responder, 1)}},
	}
	result := make(chan error, 1)
	go func() { result <- m.instance.Execute(context.Background(), batch) }()
	if h, body := p.next(); h.Kind != wire.KindExecuteBatch || !bytes.Contains(body, []byte{7}) {
		t.Fatalf("got %s", h.Kind)
	}
	p.close()
	if err := <-result; err == nil || err.Error() != "the process that bound the model has ended" {
		t.Errorf("got %v", err)
	}
}

func TestInherit(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, _, err := Inherit(int(r.Fd()), int(w.Fd())); err == nil {
		t.Error("pipes were taken for sockets")
	}
}

func TestListener(t *testing.T) {
	srv := &server{models: map[string]served{}}
	l, err := Listen(Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	knock := func(ticket string) (*process, string) {
		t.Helper()
		path, _, err := l.Ticket()
		if err != nil {
			t.Fatal(err)
		}
		p, control, descriptors := newProcess(t)
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte(ticket), unix.UnixRights(control, descriptors), nil)
		closeAll([]int{control, descriptors})
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(c)
		return p, string(answer)
	}
	if _, answer := knock("wrong"); answer != "n" {
		t.Errorf("a wrong ticket: %q", answer)
	}
	path, ticket, _ := l.Ticket()
	p, answer := knock(ticket)
	if answer != "y" {
		t.Fatalf("the right ticket: %q", answer)
	}
	if _, answer := knock(ticket); answer != "n" {
		t.Errorf("a used ticket: %q", answer)
	}
	if ready, text := p.call(wire.KindBind, 1, binding(nil)); !ready {
		t.Fatal(text)
	}
	if ready, _ := p.call(wire.KindControl, 2, map[string]string{"op": "stop"}); ready {
		t.Error("a guest may stop the server")
	}
	p.close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, ok := srv.get("m"); !ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the models of a dead guest stay")
		}
	}
	_, ticket, _ = l.Ticket()
	if _, answer := knock(ticket); answer != "y" {
		t.Errorf("a second guest: %q", answer)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("the directory stays: %v", err)
	}
}
