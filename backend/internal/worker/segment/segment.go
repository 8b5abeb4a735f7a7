package segment

import (
	"os"
	"sync"
)

// Segment is a piece of memory that the server made and workers map. It has
// no name that another process could guess.
type Segment struct {
	number uint32
	file   *os.File // stays open as long as workers may still be given it
	data   []byte   // the server's mapping
	// device is the memory of one on a GPU, which has neither file nor mapping.
	device *DeviceMemory

	mu        sync.Mutex
	borrowers map[*Loans]struct{} // are told when it ends; see loans.go
	over      bool                // it has ended
}

// New makes and maps size bytes. The server only reads what workers
// write.
func New(number uint32, size uint64, writable bool) (*Segment, error) {
	file, err := createSegmentFile(size)
	if err != nil {
		return nil, err
	}
	data, err := Map(file, int(size), writable)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Segment{number: number, file: file, data: data}, nil
}

// Close tells the borrowers and unmaps it.
func (s *Segment) Close() {
	s.ended()
	if s.device != nil {
		return // its readers have it open, see ended
	}
	Unmap(s.data)
	s.data = nil
	_ = s.file.Close()
}

// Number is the number under which its worker knows it, or its index in an arena.
func (s *Segment) Number() uint32 { return s.number }

// File is what a worker maps; nil for memory on a GPU.
func (s *Segment) File() *os.File { return s.file }

// Data is the server's mapping; nil for memory on a GPU, and at the end.
func (s *Segment) Data() []byte { return s.data }

// Device is its memory on a GPU, or nil.
func (s *Segment) Device() *DeviceMemory { return s.device }

// Size is how many bytes it has.
func (s *Segment) Size() uint64 {
	if s.device != nil {
		return s.device.size
	}
	return uint64(len(s.data))
}
