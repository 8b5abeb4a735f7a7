package jsonwire

import (
	"bytes"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// keepHead is how long a text may be to be remembered.
const keepHead = 4096

// repeat is the latest text that described nothing but tensors in the binary
// tail, and perhaps whether outputs go there too, and what it meant. A client that
// sends one kind of request sends the same text each time: to find that out takes a
// hundredth of reading it.
type repeat struct {
	text    []byte
	cfg     *modelconfig.Config // for which it was read: it has names in common
	inputs  []jsonInput
	tensors []tensor.Tensor // names, datatypes and shapes
	dims    []int64         // where the shapes lie
	outputs []kserve.OutputRequest
	binary  bool // ResponseOptions.BinaryDefault
}

// remember keeps what has been read of a text, if it is of that kind.
func (d *Decoder) remember(text []byte, r *backend.Request, c *kserve.ResponseOptions, cfg *modelconfig.Config) {
	p := &d.latest
	p.cfg = nil
	if !d.plain || len(text) > keepHead {
		return
	}
	for i := range d.inputs {
		if in := &d.inputs[i]; !in.binary || in.data || in.bad != nil || !in.region.IsZero() {
			return
		}
	}
	for i := range c.Outputs {
		if !c.Outputs[i].Region.IsZero() {
			return
		}
	}
	p.text, p.cfg = append(p.text[:0], text...), cfg
	p.inputs, p.outputs = append(p.inputs[:0], d.inputs...), append(p.outputs[:0], c.Outputs...)
	p.binary = c.BinaryDefault
	p.tensors, p.dims = p.tensors[:0], p.dims[:0]
	for i := range r.Inputs {
		p.dims = append(p.dims, r.Inputs[i].Shape...) // the request may change its own
	}
	rest := p.dims
	for i := range r.Inputs {
		t := &r.Inputs[i]
		n := len(t.Shape)
		p.tensors = append(p.tensors, tensor.Tensor{Name: t.Name, Datatype: t.Datatype, Shape: rest[:n]})
		rest = rest[n:]
	}
}

// again fills r and c as the text before has, if this is the same. They are
// empty.
func (d *Decoder) again(text []byte, r *backend.Request, c *kserve.ResponseOptions, cfg *modelconfig.Config) bool {
	p := &d.latest
	if p.cfg != cfg || cfg == nil || !bytes.Equal(p.text, text) {
		return false
	}
	d.inputs = append(d.inputs[:0], p.inputs...)
	c.Outputs, c.BinaryDefault = append(c.Outputs, p.outputs...), p.binary
	memory := new(kserve.RequestMemory)
	r.Inputs, r.Requested = memory.Inputs[:0], memory.Requested[:0]
	if len(p.tensors) > len(memory.Inputs) {
		r.Inputs = make([]tensor.Tensor, 0, len(p.tensors))
	}
	for i := range p.outputs {
		r.Requested = append(r.Requested, p.outputs[i].Name)
	}
	rest := append(memory.Dims[:0], p.dims...)
	for i := range p.tensors {
		t := p.tensors[i]
		n := len(t.Shape)
		t.Shape, rest = rest[:n:n], rest[n:]
		r.Inputs = append(r.Inputs, t)
	}
	return true
}
