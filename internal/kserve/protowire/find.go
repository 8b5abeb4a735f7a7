package protowire

import (
	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/tensor"
)

// Located is where the first large tensor of a message that is still arriving
// lies, and for which model it is.
type Located struct {
	ModelName string
	Version   int64 // -1 for the latest
	Offset    int   // of the tensor in the message
	Size      int   // of the tensor, in bytes
}

// FindTensor looks for a large tensor in a ModelInferRequest of so many bytes, of
// which head is the beginning. It reports false where there is none that begins
// within head, or where the message cannot be what it should. What it reports
// is good for choosing memory only: Parse reads the message, once it is there.
func FindTensor(head []byte, size int) (Located, bool) {
	p := Located{Version: -1}
	c := newCursor(mem.BufferSlice{mem.SliceBuffer(head)})
	c.end = size
	// A field is looked at only where all of it is in head.
	room := func() int { return len(head) - c.off }
	for room() > 2*maxVarint {
		num, wire, err := c.tag()
		if err != nil || wire != wireBytes {
			return p, false // no field of the message is anything else
		}
		n, err := c.length()
		if err != nil {
			return p, false
		}
		if num == 7 {
			p.Offset, p.Size = c.off, n
			return p, n >= largeTensor && p.ModelName != ""
		}
		if n > room() {
			return p, false
		}
		field := c.rest[:n]
		c.advance(n)
		switch num {
		case 1:
			p.ModelName = string(field)
		case 2:
			v, bad := ParseVersion(string(field))
			if bad != nil {
				return p, false
			}
			p.Version = v
		}
	}
	return p, false
}

// FindModel looks for the model in the beginning of a ModelInferRequest, where
// clients write it first. It reports false where it does not stand there.
func FindModel(head []byte) (name string, version int64, ok bool) {
	version = -1
	c := newCursor(mem.BufferSlice{mem.SliceBuffer(head)})
	for c.more() {
		num, wire, err := c.tag()
		if err != nil || wire != wireBytes || num > 2 {
			break
		}
		n, err := c.length()
		if err != nil || n > len(head)-c.off {
			break
		}
		field := string(c.rest[:n])
		c.advance(n)
		if num == 1 {
			name = field
			continue
		}
		v, bad := ParseVersion(field)
		if bad != nil {
			return "", -1, false
		}
		version = v
	}
	return name, version, name != ""
}

// maxVarint is how long a tag or a length can be.
const maxVarint = 10

// largeTensor is from which size on a tensor is received where the model wants
// it.
const largeTensor = 64 << 10

// placed is the part of a message that is a whole tensor, in memory of an
// allocator.
type placed struct {
	mem.SliceBuffer
	buffer    *tensor.Buffer
	allocator tensor.Allocator
}

// Ref implements mem.Buffer.
func (p *placed) Ref() { p.buffer.Retain() }

// Free implements mem.Buffer.
func (p *placed) Free() { p.buffer.Release() }

// Receive makes memory for a message of so many bytes, whose tensor at p goes
// into memory of a: Decode takes it from there as it is if the request's
// model has the same allocator. An error says that a has no memory now.
func (p Located) Receive(size int, a tensor.Allocator) (mem.BufferSlice, error) {
	b, err := a.Allocate(p.Size)
	if err != nil {
		return nil, err
	}
	parts := make(mem.BufferSlice, 0, 3)
	parts = append(parts, mem.SliceBuffer(make([]byte, p.Offset)), &placed{SliceBuffer: b.Bytes(), buffer: b, allocator: a})
	if rest := size - p.Offset - p.Size; rest > 0 {
		parts = append(parts, mem.SliceBuffer(make([]byte, rest)))
	}
	return parts, nil
}

// adopt makes the tensor of a part of the message t's, if the span is the whole
// part and its memory a's.
func adopt(t *tensor.Tensor, message mem.BufferSlice, s span, a tensor.Allocator) bool {
	if s.size == 0 || s.at != 0 {
		return false
	}
	p, ok := message[s.fragment].(*placed)
	if !ok || s.size != len(p.SliceBuffer) || p.allocator != a {
		return false
	}
	t.Buffer, t.Data = p.buffer.Retain(), p.SliceBuffer
	return true
}
