package worker

import (
	"os"
	"sync"
)

// segment is a piece of memory that the server made and workers map. It has
// no name that another process could guess.
type segment struct {
	number uint32
	file   *os.File // stays open as long as workers may still be given it
	data   []byte   // the server's mapping
	// device is the memory of one on a GPU, which has neither file nor mapping.
	device *deviceMemory

	mu        sync.Mutex
	borrowers map[*Conn]struct{} // to be told when it ends; see lend.go
	over      bool               // it has ended
}

// newSegment makes and maps size bytes. The server only reads what workers
// write.
func newSegment(number uint32, size uint64, writable bool) (*segment, error) {
	file, err := createSegmentFile(size)
	if err != nil {
		return nil, err
	}
	data, err := mapSegment(file, int(size), writable)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &segment{number: number, file: file, data: data}, nil
}

func (s *segment) close() {
	s.ended()
	if s.device != nil {
		return // its readers have it open, see ended
	}
	unmapSegment(s.data)
	s.data = nil
	_ = s.file.Close()
}

// size is how many bytes it has.
func (s *segment) size() uint64 {
	if s.device != nil {
		return s.device.size
	}
	return uint64(len(s.data))
}
