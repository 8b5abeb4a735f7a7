//go:build !linux

package channel

import "os"

// Reader reads a socket. One goroutine at a time may use it.
type Reader struct{ file *os.File }

// NewReader returns a reader of the socket of f; its deadlines hold there too.
func NewReader(f *os.File) (*Reader, error) { return &Reader{f}, nil }

func (r *Reader) Read(b []byte) (int, error) { return r.file.Read(b) }

// Expect has nothing to hurry here.
func (r *Reader) Expect() {}
