package nesotest

import (
	"sync/atomic"

	"github.com/nesoserve/neso/tensor"
)

// GPU is memory of a GPU that is none.
type GPU struct {
	Data []byte
	// Err fails copies.
	Err error
	// Copies counts those to the host.
	Copies atomic.Int32
}

// GPU implements tensor.DeviceMemory.
func (g *GPU) GPU() tensor.GPU { return tensor.GPU{1} }

// ToHost implements tensor.DeviceMemory.
func (g *GPU) ToHost(dst []byte, offset uint64) error {
	g.Copies.Add(1)
	copy(dst, g.Data[offset:])
	return g.Err
}

// Tensor returns a tensor of what begins at offset, with one reference.
func (g *GPU) Tensor(name string, offset uint64, d tensor.Datatype, s tensor.Shape, r tensor.Releaser) tensor.Tensor {
	b := &tensor.Buffer{}
	b.Reset(nil, tensor.Region{Arena: g, Offset: offset}, r)
	return tensor.Tensor{Name: name, Datatype: d, Shape: s, Buffer: b}
}
