// Package repeat is a decoupled backend that sends the elements of its input
// back one by one.
//
// It follows the peer's backend of the same name. Inputs are IN (INT32), DELAY
// (UINT32, as many elements) and WAIT (UINT32, one element); outputs are OUT
// (INT32) and IDX (UINT32), each with one element. The i-th response comes
// DELAY[i] milliseconds after the one before and carries IN[i] and i; then
// follows a final mark without outputs. The instance takes the next batch after
// WAIT milliseconds, whether or not all responses have been sent. A model that is
// not decoupled has one response, so IN has one element then, and its batches end
// with it, or when they are interrupted.
package repeat

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/pause"
	"github.com/nesoserve/neso/tensor"
)

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{
		Name: "repeat", Parameters: []string{}, Settings: []string{},
		Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
			return repeat{}, nil
		},
	}
}

type repeat struct{}

func (repeat) Capabilities() backend.Capabilities {
	return backend.Capabilities{Kind: "KIND_CPU", CopiesOutputs: true}
}

func (repeat) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (repeat) Close() error { return nil }

func (repeat) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	want := []backend.IO{
		{Name: "IN", Datatype: tensor.Int32},
		{Name: "DELAY", Datatype: tensor.Uint32},
		{Name: "WAIT", Datatype: tensor.Uint32},
	}
	if err := expect("inputs", cfg.Inputs, want); err != nil {
		return nil, err
	}
	want = []backend.IO{{Name: "OUT", Datatype: tensor.Int32}, {Name: "IDX", Datatype: tensor.Uint32}}
	if err := expect("outputs", cfg.Outputs, want); err != nil {
		return nil, err
	}
	return model{batching: cfg.MaxBatchSize > 0, decoupled: cfg.Decoupled}, nil
}

func expect(what string, have, want []backend.IO) error {
	if len(have) != len(want) {
		return backend.Errorf(backend.InvalidArg, "expected %d %s, got %d", len(want), what, len(have))
	}
	for _, w := range want {
		found := false
		for _, h := range have {
			found = found || h.Name == w.Name && h.Datatype == w.Datatype
		}
		if !found {
			return backend.Errorf(backend.InvalidArg, "expected %s with '%s' of datatype %s", what, w.Name, w.Datatype)
		}
	}
	return nil
}

type model struct{ batching, decoupled bool }

func (model) Allocator() tensor.Allocator { return nil }
func (model) Ready() error                { return nil }
func (model) Close() error                { return nil }

func (m model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	in := &instance{shape: tensor.Shape{1}, waits: !m.decoupled}
	if m.batching {
		in.shape = tensor.Shape{1, 1}
	}
	in.life, in.end = context.WithCancel(context.Background())
	return in, nil
}

type instance struct {
	shape   tensor.Shape
	waits   bool            // a batch ends with its senders
	life    context.Context // ends the senders
	end     context.CancelFunc
	senders sync.WaitGroup
}

// Close ends what is still being sent and waits for it.
func (in *instance) Close() error {
	in.end()
	in.senders.Wait()
	return nil
}

// Execute starts a sender for each request and waits as long as they say.
func (in *instance) Execute(ctx context.Context, b *backend.Batch) error {
	wait := time.Duration(0)
	for _, r := range b.Requests {
		if err := check(r); err != nil {
			_ = r.Respond(&backend.Response{Err: err}, true)
			continue
		}
		if w := r.Input("WAIT").Data; len(w) >= 4 {
			wait = max(wait, time.Duration(binary.LittleEndian.Uint32(w))*time.Millisecond)
		}
		over := in.life
		if in.waits {
			over = ctx
		}
		in.senders.Go(func() { in.send(over, r) })
	}
	pause.For(wait, ctx.Done(), nil)
	if in.waits {
		in.senders.Wait() // those of this batch: an instance has one at a time
		return ctx.Err()
	}
	return nil
}

func check(r *backend.Request) *backend.Error {
	i, d, w := r.Input("IN"), r.Input("DELAY"), r.Input("WAIT")
	switch {
	case i == nil || d == nil || w == nil:
		return backend.Errorf(backend.InvalidArg, "expected inputs 'IN', 'DELAY' and 'WAIT'")
	case len(i.Data) != len(d.Data):
		return backend.Errorf(backend.InvalidArg, "expected IN and DELAY shape to match, got %s and %s", i.Shape, d.Shape)
	}
	return nil
}

// send gives the responses. It stops when nobody listens any more, or over ends:
// an interrupted batch is answered by the error of its Execute.
func (in *instance) send(over context.Context, r *backend.Request) {
	var gone <-chan struct{}
	if r.Ctx != nil {
		gone = r.Ctx.Done()
	}
	values, delays := r.Input("IN").Data, r.Input("DELAY").Data
	for i := 0; 4*i+4 <= len(values); i++ {
		delay := time.Duration(binary.LittleEndian.Uint32(delays[4*i:])) * time.Millisecond
		if !pause.For(delay, over.Done(), gone) {
			if in.waits && over.Err() != nil {
				return
			}
			break
		}
		resp := &backend.Response{}
		if r.Wants("OUT") {
			out := append([]byte(nil), values[4*i:4*i+4]...)
			resp.Outputs = append(resp.Outputs, tensor.Tensor{Name: "OUT", Datatype: tensor.Int32, Shape: in.shape.Clone(), Data: out})
		}
		if r.Wants("IDX") {
			idx := binary.LittleEndian.AppendUint32(nil, uint32(i))
			resp.Outputs = append(resp.Outputs, tensor.Tensor{Name: "IDX", Datatype: tensor.Uint32, Shape: in.shape.Clone(), Data: idx})
		}
		if r.Respond(resp, false) != nil {
			break
		}
	}
	_ = r.Respond(nil, true) // owed also to a cancelled request
}
