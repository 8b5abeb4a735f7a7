//go:build !race

package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a connection whose reads and writes do not tell the Go scheduler
// that they begin and end. They never wait in the kernel, since Go's sockets do
// not block, and for such short calls the telling, and the threads that the
// scheduler wakes to stand in, cost more than the calls.
//
// It is not for race builds: the race detector sees what package net orders, and
// not what raw system calls do. Tests without it and those of the binary are held to it.
type socket struct {
	net.Conn
	rc syscall.RawConn

	in      []byte
	got     int
	inErr   error
	readIt  func(fd uintptr) bool // made once
	out     net.Buffers
	vectors []syscall.Iovec
	wrote   int
	outErr  error
	writeIt func(fd uintptr) bool
	one     [1][]byte
	// within bounds a write that has to wait; armed says that the socket knows.
	within time.Duration
	armed  bool
}

// maxCall bounds what one such call moves, in bytes: the collector waits for
// its end.
const maxCall = 256 << 10

// maxVectors is how many pieces the kernel takes at once.
const maxVectors = 1024

// newSocket returns nc with cheaper reads and writes, or nc itself where that
// cannot be.
func newSocket(nc net.Conn) net.Conn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nc
	}
	s := &socket{Conn: nc, rc: rc}
	s.readIt, s.writeIt = s.readOnce, s.writeAll
	return s
}

// Read implements net.Conn. It must not be called by two goroutines at a time.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in, s.got, s.inErr = p[:min(len(p), maxCall)], 0, nil
	err := s.rc.Read(s.readIt)
	s.in = nil
	switch {
	case err != nil:
		return 0, err
	case s.inErr != nil:
		return 0, s.inErr
	case s.got == 0:
		return 0, io.EOF
	}
	return s.got, nil
}

func (s *socket) readOnce(fd uintptr) bool {
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(s.in))), uintptr(len(s.in)))
		switch e {
		case 0:
			s.got = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			s.inErr = os.NewSyscallError("read", e)
			return true
		}
	}
}

// hasMore reports whether there is something to read (FIONREAD is TIOCINQ by its
// other name).
func (s *socket) hasMore() bool {
	var n int32
	err := s.rc.Control(func(fd uintptr) {
		_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, fd, unix.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	})
	return err == nil && n > 0
}

// Write implements net.Conn. It must not be called by two goroutines at a time.
func (s *socket) Write(p []byte) (int, error) {
	s.one[0] = p
	n, err := s.WriteParts(s.one[:])
	s.one[0] = nil
	return n, err
}

// WriteParts writes all parts, in one piece where the socket has room.
func (s *socket) WriteParts(parts net.Buffers) (int, error) {
	s.out, s.wrote, s.outErr = parts, 0, nil
	err := s.rc.Write(s.writeIt)
	s.out = nil
	if s.armed {
		s.armed = false
		_ = s.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		err = s.outErr
	}
	return s.wrote, err
}

func (s *socket) writeAll(fd uintptr) bool {
	for {
		n := s.gather()
		if n == 0 {
			return true
		}
		k, _, e := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(s.vectors))), uintptr(len(s.vectors)))
		clear(s.vectors) // they hold messages, and the next write may be far away
		switch e {
		case 0:
			s.consume(int(k))
		case syscall.EINTR:
		case syscall.EAGAIN:
			if !s.armed && s.within > 0 {
				s.armed = true
				_ = s.SetWriteDeadline(time.Now().Add(s.within))
			}
			return false
		default:
			s.outErr = os.NewSyscallError("writev", e)
			return true
		}
	}
}

// gather lists what the next call writes, and returns how many bytes that is.
func (s *socket) gather() int {
	n := 0
	s.vectors = s.vectors[:0]
	for _, p := range s.out {
		if p = p[:min(len(p), maxCall-n)]; len(p) == 0 {
			continue
		}
		v := syscall.Iovec{Base: unsafe.SliceData(p)}
		v.SetLen(len(p))
		s.vectors = append(s.vectors, v)
		if n += len(p); n == maxCall || len(s.vectors) == maxVectors {
			break
		}
	}
	return n
}

// consume drops what is written.
func (s *socket) consume(n int) {
	s.wrote += n
	for n > 0 {
		k := min(n, len(s.out[0]))
		n -= k
		if s.out[0] = s.out[0][k:]; len(s.out[0]) == 0 {
			s.out = s.out[1:]
		}
	}
}

// CloseWrite ends what the client reads.
func (s *socket) CloseWrite() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
