package backend

import "github.com/nesoserve/neso/tensor"

// Memory says where a piece of memory lies: a type, with the number that the C interface
// has for it, and an id of that type, such as the number of a GPU.
type Memory struct {
	Type MemoryType
	ID   int64
}

// MemoryType is a type of memory.
type MemoryType int32

// The types of memory.
const (
	CPUMemory MemoryType = iota
	PinnedMemory
	GPUMemory
)

// Sender is a program that has sent a request, for a backend in the same process: its
// memory can be used as it is. Backends need not. The methods may be called by any
// goroutine, InPieces until the final response of the request has been given. Those below
// Pieces may wait, and fail after the final response, which comes when none of them runs.
type Sender interface {
	// InPieces is nil unless an input lies in several pieces of memory. Then it is in one
	// piece in Request.Inputs, too, and what is returned keeps the pieces: who is to call
	// Pieces retains it, and releases it when nobody reads them any more. It does not wait.
	InPieces() (keep *tensor.Buffer)
	// Pieces are those of an input.
	Pieces(input string) [][]byte
	// PreferOutput says where an output should lie that would be in Memory, of *size bytes or,
	// with nil, of so many as are not known. It may change *size.
	PreferOutput(output string, size *uint64, would Memory) (Memory, error)
	// BeginResponse says that a response is made, of which AllocateOutput may be called.
	BeginResponse()
	// AllocateOutput gives memory for an output, where it prefers to lie or elsewhere. The
	// reference is the caller's: a response that has the buffer in a tensor hands it over.
	// The Offset of its Region is its address. One on a GPU has no Bytes, and is a
	// tensor.DeviceMemory.
	AllocateOutput(output string, size int, prefers Memory) (*tensor.Buffer, Memory, error)
}
