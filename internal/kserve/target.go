package kserve

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/shm"
	"github.com/nesoserve/neso/tensor"
)

// Target is what decoding has to know of the pinned model.
type Target struct {
	Config    *modelconfig.Config
	Allocator tensor.Allocator
	// Memory holds the shared-memory regions that the client may use; nil for none.
	Memory *shm.Registry
	// Reserver is asked where JSON becomes larger than it was as text, which is what
	// has been reserved; nil asks nobody.
	Reserver Reserver
	// Apart says that what has been reserved for the text is for the text alone, which
	// is let go when the tensors are there: they need all of their own.
	Apart bool
}

// Reserver counts input bytes, and gives them back that were needed for a while.
type Reserver interface {
	Reserve(bytes int64) *backend.Error
	Return(bytes int64)
}

// RequestMemory is the memory of one request with few tensors, in one piece. It
// belongs to the core request, which may outlive the call.
type RequestMemory struct {
	Inputs    [2]tensor.Tensor
	Requested [2]string
	Dims      [8]int64
}

// Allocate gives t memory of its own. A tensor without bytes has none.
func Allocate(t *tensor.Tensor, a tensor.Allocator, size int) *backend.Error {
	if size == 0 {
		return nil
	}
	buf, err := a.Allocate(size)
	if err != nil {
		return backend.AsError(err)
	}
	t.Buffer, t.Data = buf, buf.Bytes()[:size:size]
	return nil
}
