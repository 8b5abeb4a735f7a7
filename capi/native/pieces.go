//go:build cgo

package native

import "github.com/nesoserve/neso/tensor"

// pieces are those in which a program of this process has an input: its own memory, which
// is kept until the request is released.
type pieces struct {
	list       [][]byte
	attributes []buffers
	keep       *tensor.Buffer
}

// divide gives inputs their pieces. One that has no more than one is left as it is.
func (r *request) divide() {
	for k := range r.inputs {
		list, keep := r.sender.Pieces(r.of.Inputs[k].Name)
		if len(list) < 2 {
			continue
		}
		r.inputs[k].pieces = &pieces{list: list, attributes: make([]buffers, len(list)), keep: keep.Retain()}
	}
}

// free lets go of them; those of an input without any are none.
func (p *pieces) free() {
	if p == nil {
		return
	}
	for k := range p.attributes {
		p.attributes[k].free()
	}
	p.keep.Release()
}

// attributesOf are those of a buffer of the input.
func (i *input) attributesOf(k uint32) *buffers {
	if i.pieces != nil {
		return &i.pieces.attributes[k]
	}
	return &i.attributes
}
