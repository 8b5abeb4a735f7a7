package instance

import (
	"encoding/binary"
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// The kinds of batch_input: what the server writes into the tensor that it
// makes from a batch. An element count is that of the source input of one
// request, batch dimension included.
const (
	elementCount        = "BATCH_ELEMENT_COUNT"                       // one count a request
	accumulated         = "BATCH_ACCUMULATED_ELEMENT_COUNT"           // running sums
	accumulatedWithZero = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO" // the same, after a 0
	maxAsShape          = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"          // as many zeros as the largest count
	itemShape           = "BATCH_ITEM_SHAPE"                          // a row for each item of the batch: its shape
	itemShapeFlatten    = "BATCH_ITEM_SHAPE_FLATTEN"                  // the same in one dimension
)

// describe adds the tensors that tell the model how ragged inputs lie in the
// batch: batch_input of its configuration.
func (p *Pool) describe(b *backend.Batch) error {
	for i := range p.o.BatchInputs {
		d := &p.o.BatchInputs[i]
		if len(d.Targets) == 0 || b.Requests[0].Input(d.SourceInput[0]) == nil {
			continue // an optional input that nobody sent has nothing to describe
		}
		t, err := p.description(b, d)
		if err != nil {
			return err
		}
		for k, name := range d.Targets {
			t.Name = name
			if k > 0 {
				t.Retain()
			}
			b.Inputs = append(b.Inputs, t)
		}
	}
	return nil
}

// description makes one such tensor.
func (p *Pool) description(b *backend.Batch, d *modelconfig.BatchInput) (tensor.Tensor, error) {
	t := tensor.Tensor{Datatype: d.Datatype}
	values, err := p.values(b, d)
	if err != nil {
		return t, err
	}
	switch d.Kind {
	case maxAsShape:
		t.Shape = tensor.Shape{values[0]}
	case itemShape:
		t.Shape = tensor.Shape{int64(b.Size), int64(len(values) / b.Size)}
	default:
		t.Shape = tensor.Shape{int64(len(values))}
	}
	size, err := tensor.ByteSize(t.Datatype, t.Shape)
	if err != nil {
		return t, err
	}
	if t.Buffer, err = p.o.Allocator.Allocate(int(size)); err != nil {
		return t, err
	}
	t.Data = t.Buffer.Bytes()
	if d.Kind == maxAsShape {
		clear(t.Data) // only its shape says something
		return t, nil
	}
	for i, v := range values {
		n := uint32(v)
		if t.Datatype == tensor.FP32 {
			n = math.Float32bits(float32(v))
		}
		binary.LittleEndian.PutUint32(t.Data[4*i:], n)
	}
	return t, nil
}

// values are the numbers that a description holds, or for
// maxAsShape its length.
func (p *Pool) values(b *backend.Batch, d *modelconfig.BatchInput) ([]int64, error) {
	source := d.SourceInput[0]
	var values []int64
	if d.Kind == accumulatedWithZero || d.Kind == maxAsShape {
		values = append(values, 0)
	}
	sum := int64(0)
	for _, r := range b.Requests {
		in := r.Input(source)
		if in == nil {
			return nil, backend.Errorf(backend.Internal, "batch with and without input '%s'", source)
		}
		n, _ := in.Shape.Elements() // checked when the request came
		sum += n
		switch d.Kind {
		case elementCount:
			values = append(values, n)
		case accumulated, accumulatedWithZero:
			values = append(values, sum)
		case maxAsShape:
			values[0] = max(values[0], n)
		case itemShape, itemShapeFlatten:
			dims := in.Shape
			if p.o.Batching {
				dims = dims[1:]
			}
			for range max(1, r.BatchSize) {
				values = append(values, dims...)
			}
		default:
			return nil, backend.Errorf(backend.Internal, "unsupported BatchInputKind received")
		}
	}
	for _, v := range values {
		if v > math.MaxInt32 {
			return nil, backend.Errorf(backend.InvalidArg, "batch input '%s' cannot hold %d: input '%s' has too many elements", d.Targets[0], v,
				source)
		}
	}
	return values, nil
}
