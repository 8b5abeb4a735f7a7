package sequence

import (
	"context"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/tensor"
)

// nulls makes the requests that stand for slots without one, so that what comes
// behind them keeps its place in the batch. They look like the first real
// request, with zeros for data, and ask for no outputs: nobody waits for any.
type nulls struct {
	allocator tensor.Allocator

	mu    sync.Mutex
	zeros *tensor.Buffer // as many as were needed so far
}

// nowhere is where their responses go.
type nowhere struct{}

func (nowhere) Deliver(_ *infer.Request, resp *backend.Response, _ bool) { resp.Release() }

// put puts null requests in the likeness of r, with its first n inputs and what
// more adds, in the places of batch that are nil. They are all the same, and
// made in one piece: a batch may have hundreds.
func (z *nulls) put(batch []*infer.Request, r *infer.Request, n int, more func([]tensor.Tensor) ([]tensor.Tensor, error)) error {
	count := 0
	for _, q := range batch {
		if q == nil {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	inputs, err := z.inputs(r.Inputs[:n], len(r.Inputs))
	if err != nil {
		return err
	}
	if inputs, err = more(inputs); err != nil {
		return z.drop(inputs, err)
	}
	requests := make([]infer.Request, count)
	tensors := make([]tensor.Tensor, 0, count*len(inputs))
	now := backend.Now()
	for i, q := range batch {
		if q != nil {
			continue
		}
		null := &requests[0]
		requests = requests[1:]
		null.Init(nowhere{}, nil)
		null.Ctx = context.Background()
		null.ModelName, null.ModelVersion = r.ModelName, r.ModelVersion
		null.BatchSize = r.BatchSize
		null.Times.Start = now
		first := len(tensors)
		for k := range inputs {
			inputs[k].Retain()
			tensors = append(tensors, inputs[k])
		}
		null.Inputs = slices.Clip(tensors[first:])
		batch[i] = null
	}
	for k := range inputs {
		inputs[k].Release()
	}
	return nil
}

// inputs returns tensors like those of a request, with zeros for data; room is
// for as many.
func (z *nulls) inputs(like []tensor.Tensor, room int) ([]tensor.Tensor, error) {
	inputs := make([]tensor.Tensor, 0, room)
	for i := range like {
		in := &like[i]
		size := len(in.Data)
		if in.Datatype == tensor.Bytes {
			elements, err := in.Shape.Elements()
			if err != nil {
				return nil, z.drop(inputs, err)
			}
			size = 4 * int(elements) // empty strings; the request's own data was longer
		}
		zero := tensor.Tensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape.Clone()}
		if err := z.fill(&zero, size); err != nil {
			return nil, z.drop(inputs, err)
		}
		inputs = append(inputs, zero)
	}
	return inputs, nil
}

func (z *nulls) drop(inputs []tensor.Tensor, err error) error {
	for i := range inputs {
		inputs[i].Release()
	}
	return err
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
