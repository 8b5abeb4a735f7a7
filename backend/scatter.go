package backend

import (
	"fmt"
	"math"
	"slices"

	"github.com/nesoserve/neso/tensor"
)

// Scatter answers every request of a gathered batch with its part of the
// outputs, which are concatenated along the batch axis in request order. It
// consumes the outputs' references. Parts are views, nothing is copied.
//
// A part is as many rows as the request's batch size. For an output of
// b.Scattered it is as many elements as the request's own shape has, whatever
// shape the whole output has. An output whose first dimension is not Batch.Size,
// or whose elements are not what the requests have together, is an error for
// the whole batch, which is returned and not yet answered.
func (b *Batch) Scatter(outputs []tensor.Tensor) error {
	defer func() {
		for i := range outputs {
			outputs[i].Release()
		}
	}()
	cuts, ranks := make([]cut, len(outputs)), 0
	for i := range outputs {
		if err := cuts[i].init(b, &outputs[i]); err != nil {
			return err
		}
		ranks += len(outputs[i].Shape)
	}
	// One allocation for all requests each, and not one a request: the answers of
	// a batch live about as long.
	n := len(b.Requests)
	responses := make([]Response, n)
	parts := make([]tensor.Tensor, 0, n*len(outputs))
	dims := make(tensor.Shape, 0, n*ranks)
	for i, r := range b.Requests {
		begin := len(parts)
		for k := range cuts {
			var part tensor.Tensor
			part, dims = cuts[k].next(r, dims)
			if !r.Wants(part.Name) {
				continue
			}
			part.Retain()
			parts = append(parts, part)
		}
		responses[i].Outputs = parts[begin:len(parts):len(parts)]
		_ = r.Respond(&responses[i], true) // a cancelled request needs nothing more
	}
	return nil
}

// cut is an output from which the parts of the requests are taken one after the
// other.
type cut struct {
	whole *tensor.Tensor
	rest  []byte
	row   int        // elements of one row
	rule  *Scattered // nil when the parts are rows
}

// init checks that the output has what the requests of the batch are to get.
func (c *cut) init(b *Batch, o *tensor.Tensor) error {
	c.whole, c.rest = o, o.Data
	want, err := tensor.ByteSize(o.Datatype, o.Shape)
	if err != nil {
		return fmt.Errorf("output '%s': %w", o.Name, err)
	}
	if o.Datatype == tensor.Bytes {
		n, err := tensor.CountBytes(o.Data)
		if err != nil {
			return fmt.Errorf("output '%s': %w", o.Name, err)
		}
		if want, _ := o.Shape.Elements(); int64(n) != want {
			return Errorf(Internal, "output '%s' has %d elements, expected %d for shape %s", o.Name, n, want, o.Shape)
		}
	} else if int64(len(o.Data)) != want {
		return Errorf(Internal, "output '%s' has %d bytes, expected %d for shape %s", o.Name, len(o.Data), want, o.Shape)
	}
	if at := slices.IndexFunc(b.Scattered, func(s Scattered) bool { return s.Output == o.Name }); at >= 0 {
		c.rule = &b.Scattered[at]
		return c.checkRagged(b)
	}
	if len(o.Shape) == 0 || o.Shape[0] != int64(b.Size) {
		return Errorf(Internal, "output '%s' has shape %s, expected the batch size %d as its first dimension", o.Name, o.Shape, b.Size)
	}
	row, _ := o.Shape[1:].Elements()
	c.row = int(row)
	return nil
}

// checkRagged compares the elements of a whole output with those of its parts.
func (c *cut) checkRagged(b *Batch) error {
	has, _ := c.whole.Shape.Elements()
	want := int64(0)
	for _, r := range b.Requests {
		shape, ok := c.rule.shape(r)
		n, err := shape.Elements()
		if !ok || err != nil {
			return Errorf(Internal, "output '%s' is to have the shape of input '%s', which does not fit it", c.rule.Output, c.rule.Source)
		}
		// An input may have any dimensions as long as another one is 0: the sum must
		// not wrap.
		want += min(n, math.MaxInt64-want)
	}
	if has != want {
		return Errorf(Internal, "output '%s' has %d elements in shape %s, expected %d by the shapes of input '%s'", c.whole.Name, has,
			c.whole.Shape, want, c.rule.Source)
	}
	return nil
}

// shape is what the output has in the answer to one request.
func (s *Scattered) shape(r *Request) (tensor.Shape, bool) {
	in := r.Input(s.Source)
	if in == nil {
		return nil, false
	}
	shape := make(tensor.Shape, 0, len(s.Dims)+1)
	if s.Batching {
		shape = append(shape, int64(max(1, r.BatchSize)))
	}
	for _, d := range s.Dims {
		if d == -1 {
			if len(shape) >= len(in.Shape) {
				return nil, false
			}
			d = in.Shape[len(shape)]
		}
		shape = append(shape, d)
	}
	return shape, true
}

// next takes the part of a request, a view without a reference of its own. Its
// shape is appended to dims, which is returned.
func (c *cut) next(r *Request, dims tensor.Shape) (tensor.Tensor, tensor.Shape) {
	part := *c.whole
	var elements int
	if c.rule != nil {
		part.Shape, _ = c.rule.shape(r)
		n, _ := part.Shape.Elements()
		elements = int(n)
	} else {
		rows := max(1, r.BatchSize)
		begin := len(dims)
		dims = append(dims, c.whole.Shape...)
		part.Shape = dims[begin:len(dims):len(dims)]
		part.Shape[0] = int64(rows)
		elements = c.row * rows
	}
	size := elements * part.Datatype.Size()
	if part.Datatype == tensor.Bytes {
		size, _ = tensor.SplitBytes(c.rest, elements)
	}
	part.Data, c.rest = c.rest[:size:size], c.rest[size:]
	return part, dims
}
