//go:build cgo

package native

// pieces are those in which a program of this process has an input: its own memory, which
// the request keeps until it is released.
type pieces struct {
	list       [][]byte
	attributes []buffers
}

// divide gives inputs their pieces. One that has no more than one is left as it is.
func (r *request) divide() {
	for k := range r.inputs {
		if list := r.sender.Pieces(r.of.Inputs[k].Name); len(list) > 1 {
			r.inputs[k].pieces = &pieces{list: list, attributes: make([]buffers, len(list))}
		}
	}
}

// free ends what describes them; those of an input without any are none.
func (p *pieces) free() {
	if p == nil {
		return
	}
	for k := range p.attributes {
		p.attributes[k].free()
	}
}

// attributesOf are those of a buffer of the input.
func (i *input) attributesOf(k uint32) *buffers {
	if i.pieces != nil {
		return &i.pieces.attributes[k]
	}
	return &i.attributes
}
