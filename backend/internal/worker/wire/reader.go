package wire

import (
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

const (
	// chunkSize holds what one read brings: many small frames, so that a busy
	// worker costs less than one system call a response.
	chunkSize = 64 << 10
	// trustedFrame is the largest frame for which memory is made before its bytes
	// have come.
	trustedFrame = 4 << 20
)

// Chunk is memory that frames are read into. Inline outputs are views of it
// and hold references; the reader holds one while it reads into the chunk.
type Chunk struct {
	tensor.Buffer
	mem []byte
}

var chunks = sync.Pool{New: func() any { return &Chunk{mem: Aligned(chunkSize)} }}

func newChunk(size int) *Chunk {
	var c *Chunk
	if size <= chunkSize {
		c, _ = chunks.Get().(*Chunk)
	} else {
		c = &Chunk{mem: Aligned(size)}
	}
	c.Reset(c.mem, tensor.Region{}, c)
	return c
}

// ReleaseBuffer implements tensor.Releaser.
func (c *Chunk) ReleaseBuffer(*tensor.Buffer) {
	if len(c.mem) == chunkSize {
		chunks.Put(c)
	}
}

// Reader cuts a stream into frames. One goroutine at a time may use it.
type Reader struct {
	src        io.Reader
	bounds     *Bounds   // what may come; nil: anything
	patience   *Patience // with the rest of a frame; nil: for ever
	waited     bool      // for the rest of the present frame
	cur        *Chunk
	start, end int // of what was read and not yet returned
}

// NewReader returns a reader of src. bounds says which frames may come, nil for all.
// p bounds the wait for the rest of a frame, nil for no bound.
func NewReader(src io.Reader, bounds *Bounds, p *Patience) Reader {
	return Reader{src: src, bounds: bounds, patience: p}
}

// Chunk returns the memory that the body of the last frame lies in.
func (r *Reader) Chunk() *Chunk { return r.cur }

// Next returns the next frame. Its body lies in chunk, which the caller retains
// to keep it beyond the following call.
func (r *Reader) Next() (Header, []byte, error) {
	for {
		need := HeaderSize
		if have := r.end - r.start; have >= HeaderSize {
			h, err := ParseHeader(r.cur.mem[r.start:r.end])
			if err != nil {
				return Header{}, nil, err
			}
			if err := r.bounds.check(h); err != nil {
				return Header{}, nil, err
			}
			need += int(h.Length)
			if have >= need {
				body := r.cur.mem[r.start+HeaderSize : r.start+need : r.start+need]
				r.start += need
				if r.waited {
					r.waited = false
					r.patience.whole()
				}
				return h, body, nil
			}
		}
		if err := r.fill(need); err != nil {
			return Header{}, nil, err
		}
	}
}

// Buffered reports whether Next would return without reading.
func (r *Reader) Buffered() bool {
	have := r.end - r.start
	if have < HeaderSize {
		return false
	}
	h, err := ParseHeader(r.cur.mem[r.start:r.end])
	return err != nil || have >= HeaderSize+int(h.Length)
}

// fill reads once more, into a chunk with room for a frame of need bytes at
// the start of what is there.
func (r *Reader) fill(need int) error {
	have, frame := r.end-r.start, need
	if r.cur != nil && have == 0 && r.cur.References() == 1 {
		r.start, r.end = 0, 0
	}
	need = max(need, 4096) // short reads at the end of a chunk are not worth their call
	if r.cur == nil || len(r.cur.mem)-r.start < min(need, trustedFrame) || r.end == len(r.cur.mem) {
		size := need
		if size > trustedFrame {
			size = min(size, max(trustedFrame, 2*have))
		}
		next := newChunk(size)
		if r.cur != nil {
			copy(next.mem, r.cur.mem[r.start:r.end])
			r.cur.Release()
		}
		r.cur, r.start, r.end = next, 0, have
	}
	if have > 0 {
		r.patience.begin(have, frame)
		r.waited = r.patience != nil
	}
	n, err := r.src.Read(r.cur.mem[r.end:])
	if have > 0 {
		r.patience.end(n > 0)
	}
	r.end += n
	switch {
	case n > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	case err == io.EOF && have > 0:
		return fmt.Errorf("in the middle of a frame: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Close lets go of what was read.
func (r *Reader) Close() {
	if r.cur != nil {
		r.cur.Release()
		r.cur = nil
	}
}

// Aligned returns size bytes that start at a multiple of tensor.Alignment.
func Aligned(size int) []byte {
	b := make([]byte, size+tensor.Alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (tensor.Alignment - 1))
	return b[skip : skip+size : skip+size]
}
