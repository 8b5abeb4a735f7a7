package channel

import (
	"errors"
	"os"
	"time"
)

// ErrInterrupted is the error of a Read that Interrupt has ended. Nothing was read.
var ErrInterrupted = errors.New("the read was interrupted")

// FileSource reads a file that Go's poller watches.
type FileSource struct{ File *os.File }

// Read waits for bytes, the end or Interrupt.
func (s FileSource) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = s.File.SetReadDeadline(time.Time{})
		return 0, ErrInterrupted
	}
	return n, err
}

// Interrupt has the Read that waits, or else the next one, return ErrInterrupted.
func (s FileSource) Interrupt() { _ = s.File.SetReadDeadline(time.Now()) }

// Expect has nothing to hurry here.
func (FileSource) Expect(_, _ bool) {}
