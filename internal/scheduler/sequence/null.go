package sequence

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/tensor"
)

// nulls makes the requests that stand for slots without one, so that what comes
// behind them keeps its place in the batch. They look like the first real
// request, with zeros for data.
type nulls struct {
	allocator tensor.Allocator

	mu    sync.Mutex
	zeros *tensor.Buffer // as many as were needed so far
}

// nowhere is where their responses go.
type nowhere struct{}

func (nowhere) Deliver(_ *infer.Request, resp *backend.Response, _ bool) { resp.Release() }

// request returns a null request in the likeness of r, with its first n inputs.
func (z *nulls) request(r *infer.Request, n int) (*infer.Request, error) {
	null := infer.New(nowhere{}, nil)
	null.Ctx = context.Background()
	null.ModelName, null.ModelVersion = r.ModelName, r.ModelVersion
	null.Requested, null.BatchSize = r.Requested, r.BatchSize
	null.Times.Start = backend.Now()
	null.Inputs = make([]tensor.Tensor, 0, len(r.Inputs))
	for i := range r.Inputs[:n] {
		in := &r.Inputs[i]
		size := len(in.Data)
		if in.Datatype == tensor.Bytes {
			elements, err := in.Shape.Elements()
			if err != nil {
				null.Abandon()
				return nil, err
			}
			size = 4 * int(elements) // empty strings; the request's own data was longer
		}
		zero := tensor.Tensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape.Clone()}
		if err := z.fill(&zero, size); err != nil {
			null.Abandon()
			return nil, err
		}
		null.Inputs = append(null.Inputs, zero)
	}
	return null, nil
}

func (z *nulls) fill(t *tensor.Tensor, size int) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.zeros == nil || z.zeros.Len() < size {
		b, err := z.allocator.Allocate(size)
		if err != nil {
			return err
		}
		clear(b.Bytes())
		z.zeros.Release()
		z.zeros = b
	}
	t.Buffer, t.Data = z.zeros.Retain(), z.zeros.Bytes()[:size:size]
	return nil
}

func (z *nulls) close() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.zeros.Release()
	z.zeros = nil
}
