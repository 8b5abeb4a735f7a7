// Package square is a decoupled backend: for an input IN of one INT32 element
// n it sends n responses, each with n as OUT, and then a final mark without
// outputs. A negative n means none.
package square

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{Name: "square", Parameters: []string{}, Settings: []string{}, Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
		return square{}, nil
	}}
}

type square struct{}

func (square) Capabilities() backend.Capabilities {
	return backend.Capabilities{Kind: "KIND_CPU", CopiesOutputs: true}
}

func (square) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (square) Close() error { return nil }

func (square) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	switch {
	case !cfg.Decoupled:
		return nil, backend.Errorf(backend.InvalidArg, "square backend only supports decoupled models, '%s' is not", cfg.Name)
	case len(cfg.Inputs) != 1 || cfg.Inputs[0].Name != "IN" || cfg.Inputs[0].Datatype != tensor.Int32:
		return nil, backend.Errorf(backend.InvalidArg, "expected one input 'IN' of datatype INT32")
	case len(cfg.Outputs) != 1 || cfg.Outputs[0].Name != "OUT" || cfg.Outputs[0].Datatype != tensor.Int32:
		return nil, backend.Errorf(backend.InvalidArg, "expected one output 'OUT' of datatype INT32")
	}
	return model{}, nil
}

type model struct{}

func (model) Allocator() tensor.Allocator { return nil }
func (model) Ready() error                { return nil }
func (model) Close() error                { return nil }

func (model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	in := &instance{}
	in.life, in.end = context.WithCancel(context.Background())
	return in, nil
}

type instance struct {
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

// Execute starts a sender for each request.
func (in *instance) Execute(_ context.Context, b *backend.Batch) error {
	for _, r := range b.Requests {
		t := r.Input("IN")
		if t == nil || len(t.Data) != 4 {
			_ = r.Respond(&backend.Response{Err: backend.Errorf(backend.InvalidArg, "expected input 'IN' with one element")}, true)
			continue
		}
		n := int32(binary.LittleEndian.Uint32(t.Data))
		shape := t.Shape.Clone()
		in.senders.Go(func() { in.send(r, n, shape) })
	}
	return nil
}

func (in *instance) send(r *backend.Request, n int32, shape tensor.Shape) {
	for range max(0, n) {
		if in.life.Err() != nil {
			break
		}
		resp := &backend.Response{}
		if r.Wants("OUT") {
			data := binary.LittleEndian.AppendUint32(nil, uint32(n))
			resp.Outputs = []tensor.Tensor{{Name: "OUT", Datatype: tensor.Int32, Shape: shape.Clone(), Data: data}}
		}
		if r.Respond(resp, false) != nil {
			break // nobody listens any more
		}
	}
	_ = r.Respond(nil, true)
}
