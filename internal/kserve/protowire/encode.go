package protowire

import (
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/tensor"
)

// copyBelow is the size up to which tensor data is copied behind the head. The
// transport does not count references of smaller buffers, and one buffer object
// more costs about as much as copying this much.
const copyBelow = 1024

// headSize is the usual capacity of a head: enough for a few outputs with their
// small data, and more than copyBelow, so that the transport gives it back.
const headSize = 2048

// heads keeps head buffers. Larger ones are left to the collector.
var heads = headPool{pool: sync.Pool{New: func() any {
	b := make([]byte, 0, headSize)
	return &b
}}}

type headPool struct{ pool sync.Pool }

func (h *headPool) Get(size int) *[]byte {
	if size <= headSize {
		return h.pool.Get().(*[]byte)
	}
	b := make([]byte, 0, size)
	return &b
}

// Put takes a head back from the transport.
func (h *headPool) Put(b *[]byte) {
	if cap(*b) == headSize {
		*b = (*b)[:0]
		h.pool.Put(b)
	}
}

// loan is tensor data lent to the transport. As the buffer pool of its own
// mem.Buffer it learns when the transport is done, and then drops the tensor's
// reference.
type loan struct {
	data   []byte
	buffer *tensor.Buffer
}

var loans = sync.Pool{New: func() any { return new(loan) }}

// lend consumes the tensor's reference.
func lend(t *tensor.Tensor) mem.Buffer {
	l := loans.Get().(*loan)
	l.data, l.buffer = t.Data, t.Buffer
	t.Data, t.Buffer = nil, nil
	return mem.NewBuffer(&l.data, l)
}

// Get is never called: a loan only takes back.
func (l *loan) Get(int) *[]byte { panic("protowire: a loan has no memory to give") }

// Put is called when the transport is done with the data.
func (l *loan) Put(*[]byte) {
	b := l.buffer
	l.data, l.buffer = nil, nil
	loans.Put(l)
	b.Release()
}

// Encode returns the message for the transport and consumes the outputs'
// references: large data is lent, not copied. p.Size must have succeeded.
func Encode(p *Response) mem.BufferSlice {
	head, parts := p.size, 1
	for i := range p.Outputs {
		if n := len(p.Outputs[i].Data); n > copyBelow {
			head -= n
			parts += 2
		}
	}
	handle := heads.Get(head)
	b := p.appendHead(*handle)
	out := make(mem.BufferSlice, 0, parts)
	if parts == 1 {
		for i := range p.Outputs {
			t := &p.Outputs[i]
			b = appendLength(b, 6, len(t.Data))
			b = append(b, t.Data...)
			t.Release()
		}
		*handle = b
		return append(out, mem.NewBuffer(handle, &heads))
	}
	// The head's bytes are cut at each place where lent data goes in.
	cuts := make([]int, 0, parts)
	for i := range p.Outputs {
		t := &p.Outputs[i]
		b = appendLength(b, 6, len(t.Data))
		if len(t.Data) > copyBelow {
			cuts = append(cuts, len(b), i)
			continue
		}
		b = append(b, t.Data...)
		t.Release()
	}
	*handle = b
	all := mem.NewBuffer(handle, &heads)
	from := 0
	for i := 0; i < len(cuts); i += 2 {
		out = append(out, all.Slice(from, cuts[i]), lend(&p.Outputs[cuts[i+1]]))
		from = cuts[i]
	}
	if from < len(b) {
		out = append(out, all.Slice(from, len(b)))
	}
	all.Free()
	return out
}
