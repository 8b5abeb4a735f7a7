package instance

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// gather fills Batch.Inputs for backends that ask for it. A batch of one
// request is passed as it is; several are copied together, the one copy that
// batching costs.
func (p *Pool) gather(e *execution) error {
	if !p.o.Capabilities.Gather {
		return nil
	}
	b := &e.batch
	first := b.Requests[0]
	if len(b.Requests) == 1 {
		b.Inputs, e.borrowed = first.Inputs, len(first.Inputs)
		if len(p.o.Ragged) == 0 && len(p.o.BatchInputs) == 0 {
			return nil
		}
		b.Inputs = make([]tensor.Tensor, len(first.Inputs), len(first.Inputs)+len(p.o.BatchInputs))
		for i := range first.Inputs {
			b.Inputs[i] = p.flatten(first.Inputs[i])
		}
		return p.describe(b)
	}
	if err := sameInputs(b.Requests); err != nil {
		return err
	}
	b.Inputs = make([]tensor.Tensor, 0, len(first.Inputs)+len(p.o.BatchInputs))
	for i := range first.Inputs {
		t, err := p.concatenate(b, i)
		if err != nil {
			return err
		}
		b.Inputs = append(b.Inputs, t)
	}
	return p.describe(b)
}

// sameInputs refuses a batch in which one request has an input that another one has
// not: rows of it would be missing, or, where the first request has none, what others
// sent would not reach the model. Schedulers form no such batch, in which optional
// inputs are the same for all.
func sameInputs(requests []*backend.Request) error {
	first := requests[0]
	for _, r := range requests[1:] {
		for i := range first.Inputs {
			if name := first.Inputs[i].Name; input(r, i, name) == nil {
				return backend.Errorf(backend.Internal, "batch with and without input '%s'", name)
			}
		}
		for i := range r.Inputs {
			if name := r.Inputs[i].Name; input(first, i, name) == nil {
				return backend.Errorf(backend.Internal, "batch with and without input '%s'", name)
			}
		}
	}
	return nil
}

// concatenate joins the i-th input of the first request with the inputs of the
// same name of the others, along the batch axis.
func (p *Pool) concatenate(b *backend.Batch, i int) (tensor.Tensor, error) {
	t := b.Requests[0].Inputs[i]
	t.Buffer = nil
	size, ragged := 0, p.o.Ragged[t.Name]
	for _, r := range b.Requests {
		in := input(r, i, t.Name)
		if in.Datatype != t.Datatype {
			return t, backend.Errorf(backend.Internal, "batch with input '%s' of datatypes %s and %s", t.Name, t.Datatype, in.Datatype)
		}
		// The rows lie one behind the other: with a longer one among them each would
		// begin in another. Schedulers form no such batch.
		if !ragged && !p.row(in.Shape).Equal(p.row(t.Shape)) {
			return t, backend.Errorf(backend.Internal, "batch with input '%s' of shapes %v and %v, which cannot share one", t.Name, t.Shape,
				in.Shape)
		}
		size += len(in.Data)
	}
	buf, err := p.o.Allocator.Allocate(size)
	if err != nil {
		return t, err
	}
	t.Buffer, t.Data = buf, buf.Bytes()
	rest, elements := t.Data, int64(0)
	for _, r := range b.Requests {
		in := input(r, i, t.Name)
		rest = rest[copy(rest, in.Data):]
		n, _ := in.Shape.Elements()
		elements += n
	}
	switch {
	case ragged:
		t.Shape = tensor.Shape{elements}
	case p.o.Batching && len(t.Shape) > 0:
		t.Shape = t.Shape.Clone()
		t.Shape[0] = int64(b.Size)
	}
	return t, nil
}

// row is the shape of an input without its batch dimension.
func (p *Pool) row(s tensor.Shape) tensor.Shape {
	if p.o.Batching && len(s) > 0 {
		return s[1:]
	}
	return s
}

// flatten returns a ragged input as one dimension, the form it has in a batch.
func (p *Pool) flatten(t tensor.Tensor) tensor.Tensor {
	if !p.o.Ragged[t.Name] {
		return t
	}
	n, _ := t.Shape.Elements()
	return t.View(tensor.Shape{n})
}

// input finds an input by name; requests mostly have them in the same order.
func input(r *backend.Request, i int, name string) *tensor.Tensor {
	if i < len(r.Inputs) && r.Inputs[i].Name == name {
		return &r.Inputs[i]
	}
	return r.Input(name)
}
