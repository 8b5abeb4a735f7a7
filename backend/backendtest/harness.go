package backendtest

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Patience is how long the suite waits for anything; less than slow models take.
const Patience = 50 * time.Second

// harness is one loaded model with one instance, and the server's side of it.
type harness struct {
	t        *testing.T
	caps     backend.Capabilities
	instance backend.Instance
	inputs   tensor.Allocator
	memory   *counting
}

// open loads the configuration and makes its first instance; the end of the
// test closes them and looks for memory that is still in use.
func open(t *testing.T, s *Suite, cfg backend.Config) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	memory := &counting{}
	server := &host{memory: memory}
	t.Cleanup(func() { memory.check(t) })
	t.Cleanup(server.calls.Wait)
	b, err := s.Driver.Open(ctx, server, s.Settings)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	closing := func(what string, f func() error) { t.Cleanup(func() { closeTwice(t, what, f) }) }
	closing("backend", b.Close)
	cfg = complete(cfg)
	m, err := b.Load(ctx, cfg)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	closing("model", m.Close)
	if err := m.Ready(); err != nil {
		t.Errorf("Ready after Load: %v", err)
	}
	in, err := m.NewInstance(ctx, cfg.Instances[0])
	if err != nil {
		t.Fatalf("NewInstance: %v", err)
	}
	closing("instance", in.Close)
	h := &harness{t: t, caps: b.Capabilities(), instance: in, inputs: m.Allocator(), memory: memory}
	if h.inputs == nil {
		h.inputs = memory
	}
	return h
}

// closeTwice closes, and closes again: that is once.
func closeTwice(t *testing.T, what string, f func() error) {
	t.Helper()
	for _, time := range []string{"Close", "second Close"} {
		if err := f(); err != nil {
			t.Errorf("%s of the %s: %v", time, what, err)
		}
	}
}

// complete fills in what the server would.
func complete(cfg backend.Config) backend.Config {
	if cfg.Name == "" {
		cfg.Name = "model"
	}
	if cfg.Version == 0 {
		cfg.Version = 1
	}
	if len(cfg.Instances) == 0 {
		cfg.Instances = []backend.InstanceConfig{{Name: cfg.Name + "_0_0", Kind: "KIND_CPU"}}
	}
	return cfg
}

// input copies data into memory of the model's choice.
func (h *harness) input(name string, d tensor.Datatype, shape tensor.Shape, data []byte) tensor.Tensor {
	h.t.Helper()
	b, err := h.inputs.Allocate(len(data))
	if err != nil {
		h.t.Fatalf("Allocate(%d): %v", len(data), err)
	}
	if b.Len() != len(data) {
		h.t.Fatalf("Allocate(%d) gave %d bytes", len(data), b.Len())
	}
	copy(b.Bytes(), data)
	return tensor.Tensor{Name: name, Datatype: d, Shape: shape, Data: b.Bytes(), Buffer: b}
}

// execute runs the requests as one batch and returns when Execute has returned
// and all final responses have come. Inputs are released then.
func (h *harness) execute(requests ...*call) error {
	h.t.Helper()
	batch := &backend.Batch{}
	for _, c := range requests {
		batch.Requests = append(batch.Requests, &c.Request)
		batch.Size += max(1, c.BatchSize)
	}
	if h.caps.Gather {
		batch.Inputs = h.gather(requests, batch.Size)
	}
	returned := make(chan error, 1)
	go func() { returned <- h.instance.Execute(context.Background(), batch) }()
	late := time.NewTimer(Patience)
	defer late.Stop()
	var err error
	select {
	case err = <-returned:
	case <-late.C:
		h.t.Fatal("Execute does not return")
	}
	for _, c := range requests {
		if err != nil {
			// As the server does with what is unanswered.
			_ = c.Respond(&backend.Response{Err: backend.AsError(err)}, true)
		}
		select {
		case <-c.done:
		case <-late.C:
			h.t.Fatalf("request %q has no final response", c.ID)
		}
	}
	if len(requests) > 1 {
		for i := range batch.Inputs {
			batch.Inputs[i].Release()
		}
	}
	for _, c := range requests {
		for i := range c.Inputs {
			c.Inputs[i].Release()
		}
	}
	return err
}

func (h *harness) gather(requests []*call, size int) []tensor.Tensor {
	if len(requests) == 1 {
		return requests[0].Inputs
	}
	var all []tensor.Tensor
	for i, t := range requests[0].Inputs {
		var data []byte
		for _, c := range requests {
			data = append(data, c.Inputs[i].Data...)
		}
		shape := t.Shape.Clone()
		shape[0] = int64(size)
		all = append(all, h.input(t.Name, t.Datatype, shape, data))
	}
	return all
}

// call is a request with what was answered.
type call struct {
	backend.Request
	cancel context.CancelFunc

	mu        sync.Mutex
	responses []answer
	ended     bool
	done      chan struct{}
}

// answer is a response that shares no memory with the backend.
type answer struct {
	outputs []tensor.Tensor
	err     *backend.Error
}

func newCall(id string, batch int, outputs []string, inputs ...tensor.Tensor) *call {
	c := &call{done: make(chan struct{})}
	c.ID, c.ModelName, c.ModelVersion = id, "model", 1
	c.BatchSize, c.Requested, c.Inputs = batch, outputs, inputs
	c.Ctx, c.cancel = context.WithCancel(context.Background())
	c.Responder = responder{c}
	return c
}

type responder struct{ c *call }

type endedError struct{}

func (endedError) Error() string { return "the request has already been answered" }

// Respond implements backend.Responder.
func (r responder) Respond(resp *backend.Response, final bool) error {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	defer resp.Release()
	if c.ended {
		return endedError{}
	}
	if resp != nil {
		a := answer{err: resp.Err}
		if resp.Err == nil {
			for _, t := range resp.Outputs {
				t.Data, t.Buffer, t.Shape = bytes.Clone(t.Data), nil, t.Shape.Clone()
				a.outputs = append(a.outputs, t)
			}
		}
		c.responses = append(c.responses, a)
	}
	if final {
		c.ended = true
		close(c.done)
		c.cancel()
		return nil
	}
	if c.Ctx.Err() != nil {
		return backend.Errorf(backend.Cancelled, "request cancelled")
	}
	return nil
}

// Cancelled implements backend.Responder.
func (r responder) Cancelled() bool { return r.c.Ctx.Err() != nil }

// counting is an allocator that knows what is in use.
type counting struct {
	mu    sync.Mutex
	inUse map[*tensor.Buffer]string
}

// Allocate implements tensor.Allocator.
func (a *counting) Allocate(size int) (*tensor.Buffer, error) {
	if size < 0 {
		return nil, backend.Errorf(backend.InvalidArg, "cannot allocate %d bytes", size)
	}
	b := tensor.NewBuffer(make([]byte, size), a)
	stack := make([]byte, 2048)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inUse == nil {
		a.inUse = map[*tensor.Buffer]string{}
	}
	a.inUse[b] = string(stack[:runtime.Stack(stack, false)])
	return b, nil
}

// ReleaseBuffer implements tensor.Releaser. It spoils the memory, so that a
// late use shows.
func (a *counting) ReleaseBuffer(b *tensor.Buffer) {
	for i := range b.Bytes() {
		b.Bytes()[i] = 0xDB
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.inUse, b)
}

func (a *counting) check(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for b, stack := range a.inUse {
		t.Errorf("%d bytes are still in use after Close, allocated at\n%s", b.Len(), stack)
	}
}
