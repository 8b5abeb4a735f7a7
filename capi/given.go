//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"sync"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// given is memory of the program's allocator that a backend in this process has asked for.
// It is given back with its buffer, or with the response that has taken it.
type given struct {
	flight *flight
	output output
	buffer tensor.Buffer
	taken  bool
}

// onDevice is given for memory on a GPU.
type onDevice struct{ *given }

// GPU implements tensor.DeviceMemory: it is one that the program knows.
func (onDevice) GPU() tensor.GPU { return tensor.GPU{} }

// ToHost implements tensor.DeviceMemory.
func (d onDevice) ToHost([]byte, uint64) error {
	return backend.Errorf(backend.Unsupported, "output '%s' lies in the program's memory on a GPU", d.output.name)
}

// ReleaseBuffer implements tensor.Releaser.
func (g *given) ReleaseBuffer(*tensor.Buffer) {
	if !g.taken {
		g.flight.allocator.release(&g.output)
	}
}

// outputNames are names of outputs in memory of C, as many as models have.
var outputNames sync.Map

func outputName(s string) uintptr {
	t, ok := outputNames.Load(s)
	if !ok {
		t, _ = outputNames.LoadOrStore(s, &object.Text{})
	}
	return t.(*object.Text).C(s) //nolint:forcetypeassert // nothing else is put there
}

// InPieces implements backend.Sender.
func (f *flight) InPieces() *tensor.Buffer {
	if !f.inPieces {
		return nil
	}
	return f.memory
}

// Pieces implements backend.Sender. The request does not change while its memory is kept.
func (f *flight) Pieces(name string) [][]byte {
	r := f.request
	for i := range r.inputs {
		if r.inputs[i].name == name || r.raw != "" {
			return r.inputs[i].pieces
		}
	}
	return nil
}

// Keep implements neso.Sender.
func (f *flight) Keep(memory *tensor.Buffer) { f.memory = memory }

// BeginResponse implements backend.Sender.
func (f *flight) BeginResponse() {
	f.begin()
	f.begun.Add(1)
}

// AllocateOutput implements backend.Sender: it asks the program's allocator.
func (f *flight) AllocateOutput(name string, size int, prefers backend.Memory) (*tensor.Buffer, backend.Memory, error) {
	g := &f.given
	if f.used.Swap(true) {
		g = &given{}
	}
	g.flight, g.output.name = f, name
	o := &g.output
	if err := f.allocator.allocate(o, outputName(name), size, prefers, f.allocatorUser); err != nil {
		f.allocator.release(o)
		return nil, backend.Memory{}, err
	}
	at := backend.Memory{Type: backend.MemoryType(o.at._type), ID: int64(o.at.id)}
	region := tensor.Region{Arena: g, Offset: uint64(o.at.buffer)}
	var data []byte
	if at.Type == backend.GPUMemory {
		region.Arena = onDevice{g}
	} else {
		data, _ = object.Bytes(uintptr(o.at.buffer), uint64(size))
	}
	g.buffer.Reset(data, region, g)
	return &g.buffer, at, nil
}

// takes has the output of a response lie where its tensor lies, if that is memory of the
// program's and nobody else reads it there, such as a request that has the same answer.
func (f *flight) takes(t *tensor.Tensor, o *output) bool {
	if t.Buffer == nil {
		return false
	}
	var g *given
	switch a := t.Buffer.Region().Arena.(type) {
	case *given:
		g = a
	case onDevice:
		g = a.given
	}
	if g == nil || g.flight != f || t.Buffer.References() != 1 {
		return false
	}
	g.taken = true
	o.at, o.size, o.given, o.attributes = g.output.at, g.output.size, true, g.output.attributes
	return true
}

// PreferOutput implements backend.Sender: it asks the program's query function.
func (f *flight) PreferOutput(name string, size *uint64, would backend.Memory) (backend.Memory, error) {
	query := C.word(f.allocator.query.Load())
	if query == 0 {
		return would, backend.Errorf(backend.Unavailable, "%sOutput properties are not available", prefix(f.id))
	}
	text := object.NewText(name)
	defer object.FreeText(text)
	var n *C.size_t
	if size != nil {
		n = new(C.size_t)
		*n = C.size_t(*size)
	}
	kind, id := C.int(would.Type), C.int64_t(would.ID)
	err := object.TakeError(handle.Handle(C.call_query(query, f.allocator.handle, f.allocatorUser, C.word(text), n, &kind, &id)))
	if err != nil {
		return would, err
	}
	if size != nil {
		*size = uint64(*n)
	}
	return backend.Memory{Type: backend.MemoryType(kind), ID: int64(id)}, nil
}

var _ neso.Sender = (*flight)(nil)
