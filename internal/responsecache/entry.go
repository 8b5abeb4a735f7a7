package responsecache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Entry is one answer that is kept: its tensors lie in one counted buffer that
// all readers share. It is immutable; a reference of the buffer keeps it.
type Entry struct {
	outputs    []tensor.Tensor // their Buffer is buffer, without a reference of their own
	parameters []backend.Parameter
	buffer     *tensor.Buffer
}

// NewEntry copies a successful response of at most limit bytes into memory of
// its own, with one reference: what a model returns lies where the model, or its worker, goes on
// writing. The response is borrowed.
func NewEntry(resp *backend.Response, limit int64, a tensor.Allocator) (*Entry, error) {
	total := 0
	for i := range resp.Outputs {
		total += tensor.Align(len(resp.Outputs[i].Data))
	}
	if int64(total) > limit {
		return nil, tooLarge(int64(total), limit)
	}
	b, err := a.Allocate(total)
	if err != nil {
		return nil, err
	}
	e := &Entry{buffer: b, outputs: make([]tensor.Tensor, len(resp.Outputs)), parameters: append([]backend.Parameter(nil), resp.Parameters...)}
	at := 0
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		n := copy(b.Bytes()[at:], t.Data)
		e.outputs[i] = tensor.Tensor{
			Name: strings.Clone(t.Name), Datatype: t.Datatype, Shape: slices.Clip(t.Shape.Clone()),
			Data: b.Bytes()[at : at+n : at+n], Buffer: b,
		}
		at += tensor.Align(n)
	}
	return e, nil
}

func tooLarge(size, limit int64) error {
	return fmt.Errorf("Requested byte_size: %d is greater than total cache size: %d", size, limit) //nolint:staticcheck // Triton's text
}

// Response makes a response of the entry and consumes the caller's reference:
// the tensors are the entry's own memory, each with a reference.
func (e *Entry) Response() *backend.Response {
	resp := &backend.Response{Outputs: append([]tensor.Tensor(nil), e.outputs...), Parameters: slices.Clip(e.parameters)}
	if len(e.outputs) == 0 {
		e.Release()
		return resp
	}
	for range len(e.outputs) - 1 {
		e.buffer.Retain()
	}
	return resp
}

// Outputs returns the tensors, which are borrowed.
func (e *Entry) Outputs() []tensor.Tensor { return e.outputs }

// Retain adds a reference and returns e.
func (e *Entry) Retain() *Entry {
	e.buffer.Retain()
	return e
}

// Release drops a reference. A nil entry is ignored.
func (e *Entry) Release() {
	if e != nil {
		e.buffer.Release()
	}
}

// What an entry takes besides its tensors: the entry, its place in the index and
// the order of use, and each tensor's name, shape and view.
const (
	entryOverhead  = 256
	outputOverhead = 112
)

// size returns the bytes of memory that the entry takes, whole allocation
// included.
func (e *Entry) size() int64 {
	n := entryOverhead + int64(cap(e.buffer.Bytes()))
	for i := range e.outputs {
		n += outputOverhead + int64(len(e.outputs[i].Name)) + int64(8*len(e.outputs[i].Shape))
	}
	for _, p := range e.parameters {
		n += 56 + int64(len(p.Name)+len(p.Text()))
	}
	return n
}
