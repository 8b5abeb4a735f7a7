package kserve

import (
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/shm"
	"github.com/nesoserve/neso/tensor"
)

// regionInput is an input whose bytes lie in a client's shared memory.
type regionInput struct {
	index int // in the request's inputs
	part  shm.Part
}

// OpenInput looks up the region of the input with the index.
func (c *ResponseOptions) OpenInput(m Target, index int, g *RegionRef) *backend.Error {
	part, err := g.use(m.Memory)
	if err == nil {
		c.inputs = append(c.inputs, regionInput{index, part})
	}
	return err
}

// OpenOutputs looks up the regions that outputs are to go to.
func (c *ResponseOptions) OpenOutputs(m Target) *backend.Error {
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.Region.IsZero() {
			continue
		}
		var err *backend.Error
		if o.part, err = o.Region.use(m.Memory); err != nil {
			return err
		}
	}
	return nil
}

func (g *RegionRef) use(memory *shm.Registry) (shm.Part, *backend.Error) {
	size := g.ByteSize
	if !g.size {
		size = 1<<64 - 1 // in no region, as the peer has it
	}
	return memory.Use(g.Name, g.Offset, size)
}

// ReadRegions copies the inputs that lie in shared memory into memory of a,
// after reserving their bytes in the server. It has to come after decoding and
// before engine.Infer: what the client changes later is not seen by the response
// cache nor by the model. On an error r is the caller's to release, as it is
// after decoding. The regions count as used until ReleaseRegions.
func (c *ResponseOptions) ReadRegions(r *infer.Request, a tensor.Allocator) error {
	if len(c.inputs) == 0 {
		return nil
	}
	total := int64(0)
	for i := range c.inputs {
		size := c.inputs[i].part.Size()
		if total += size; total < 0 {
			return Invalid("the inputs in shared memory are too large together")
		}
	}
	if err := r.Reserve(total); err != nil {
		return err
	}
	for i := range c.inputs {
		in := &c.inputs[i]
		t := &r.Inputs[in.index]
		if err := Allocate(t, a, int(in.part.Size())); err != nil {
			return err
		}
		if err := in.part.Read(t.Data); err != nil {
			return err
		}
	}
	return nil
}

// Place writes an output to its region.
func (o *OutputRequest) Place(t *tensor.Tensor) *backend.Error {
	if size := o.part.Size(); int64(len(t.Data)) > size {
		return &backend.Error{Code: backend.Internal, Message: "shared memory size specified with the request for output '" + t.Name + "' (" +
			strconv.FormatInt(size, 10) + " bytes) should be at least " + strconv.Itoa(len(t.Data)) + " bytes to hold the results"}
	}
	if len(t.Data) == 0 {
		return nil
	}
	return o.part.Write(t.Data)
}

// ReleaseRegions lets go of the client's shared memory. It comes before the last
// of an answer is written: who has its answer can unregister its regions.
func (c *ResponseOptions) ReleaseRegions() {
	for i := range c.inputs {
		c.inputs[i].part.Release()
	}
	c.inputs = c.inputs[:0]
	for i := range c.Outputs {
		c.Outputs[i].part.Release()
	}
}
