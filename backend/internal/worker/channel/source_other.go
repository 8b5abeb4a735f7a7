//go:build !linux

package channel

import "os"

// Source reads a socket. One goroutine at a time may read.
type Source struct{ FileSource }

// NewSource returns a source of the socket of f, which it takes over.
func NewSource(f *os.File) (*Source, error) { return &Source{FileSource{f}}, nil }

// Sink writes to a socket.
type Sink struct{ *os.File }

// NewSink returns a sink of the socket of f.
func NewSink(f *os.File) (*Sink, *os.File, error) { return &Sink{f}, f, nil }
