package shm

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// Region describes a registered region.
type Region struct {
	Name string
	Kind Kind
	// Key and Offset, in bytes, are those of a system region.
	Key    string
	Offset uint64
	// Device is the number of a CUDA region's GPU.
	Device   uint64
	ByteSize uint64
}

// memory is what a region lies in. Offsets are bytes from its start. Its owner
// may shrink it at any time: a read or write beyond what is there returns
// errGone and has no other effect.
type memory interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// errGone says that the memory has become smaller than it was.
var errGone = errors.New("the client has made it smaller than it was when it was registered")

// region is a registered region. The registry holds one reference, and each
// Part one.
type region struct {
	Region
	memory memory
	refs   atomic.Int32
}

func (n *region) release() {
	if n.refs.Add(-1) == 0 {
		_ = n.memory.Close() // nothing is buffered
	}
}

// Part is a range of a region that a request uses. The zero Part is none.
type Part struct {
	region   *region
	at, size int64
}

// IsZero reports whether p is none.
func (p *Part) IsZero() bool { return p.region == nil }

// Size returns the number of bytes.
func (p *Part) Size() int64 { return p.size }

// Read copies the whole part into dst, which is as long. What the client does
// to its memory afterwards does not change dst.
func (p *Part) Read(dst []byte) *backend.Error {
	return p.move(dst, p.region.memory.ReadAt, "read")
}

// Write copies src, which is at most as long, to the start of the part.
func (p *Part) Write(src []byte) *backend.Error {
	return p.move(src, p.region.memory.WriteAt, "write")
}

func (p *Part) move(b []byte, do func([]byte, int64) (int, error), verb string) *backend.Error {
	if int64(len(b)) > p.size {
		return backend.Errorf(backend.Internal, "%d bytes do not fit into %d bytes of shared memory", len(b), p.size)
	}
	if len(b) == 0 {
		return nil
	}
	if _, err := do(b, p.at); err != nil {
		return backend.Errorf(backend.InvalidArg, "Unable to %s shared memory region: '%s': %v", verb, p.region.Name, err)
	}
	return nil
}

// Release lets go of the memory. It may be called more than once on a Part, but
// not on copies of it.
func (p *Part) Release() {
	if p.region != nil {
		p.region.release()
		*p = Part{}
	}
}
