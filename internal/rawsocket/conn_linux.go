package rawsocket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a connection whose Read, Write and WriteParts are raw system calls.
// One goroutine at a time may read, and one may write. Deadlines hold as ever.
type Conn struct {
	net.Conn
	// Full is called when the socket takes nothing more, once for each write at
	// most, by the goroutine that writes. An error of it ends the write; else the
	// write waits. Nil lets it wait. Set it before the first write.
	Full func() error
	// Done is called at the end of a write for which Full was called; it may be nil.
	Done func()

	raw syscall.RawConn

	in      []byte
	got     int
	inErr   error
	readIt  func(fd uintptr) bool // made once
	out     net.Buffers
	one     [1][]byte
	vectors []syscall.Iovec
	wrote   int
	outErr  error
	waited  bool // Full has been called
	writeIt func(fd uintptr) bool

	asked      bool // out has been written, or its end is for Write
	written    func()
	exchangeIt func(fd uintptr) bool
}

const (
	// maxCall bounds what one such call moves, in bytes: the collector waits for its
	// end.
	maxCall = 256 << 10
	// maxVectors is how many pieces the kernel takes at once.
	maxVectors = 1024
)

// New returns c with cheaper reads and writes, or nil where that cannot be.
func New(c net.Conn) *Conn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &Conn{Conn: c, raw: raw}
	s.readIt, s.writeIt, s.exchangeIt = s.readOnce, s.writeAll, s.exchangeOnce
	return s
}

// Read implements net.Conn.
func (s *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in, s.got, s.inErr = p[:min(len(p), maxCall)], 0, nil
	err := s.raw.Read(s.readIt)
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

func (s *Conn) readOnce(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(s.in))), uintptr(len(s.in)))
		switch errno {
		case 0:
			s.got = int(n)
			received(fd, s.in[:n])
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			s.inErr = os.NewSyscallError("read", errno)
			return true
		}
	}
}

// Exchange writes out, calls written, and reads into in, which is not empty, what
// comes then. It waits for that at once, where a Read would look in vain first: it is
// for questions to which nothing has been answered yet.
func (s *Conn) Exchange(out, in []byte, written func()) (int, error) {
	s.in, s.got, s.inErr = in[:min(len(in), maxCall)], 0, nil
	s.one[0] = out
	s.out, s.wrote, s.outErr, s.asked, s.written = s.one[:], 0, nil, false, written
	err := s.raw.Read(s.exchangeIt)
	var rest []byte // of out: the list lies in s.one
	if len(s.out) > 0 {
		rest = s.out[0]
	}
	s.in, s.out, s.one[0] = nil, nil, nil
	switch {
	case err != nil:
		return 0, err
	case s.outErr != nil:
		return 0, s.outErr
	case s.inErr != nil:
		return 0, s.inErr
	case len(rest) > 0: // the socket was full
		if _, err := s.Write(rest); err != nil {
			return 0, err
		}
		written()
		return s.Read(in)
	case s.got == 0:
		return 0, io.EOF
	}
	return s.got, nil
}

// exchangeOnce writes when it is called first, and says that there is nothing to read:
// the caller has begun to listen before, and so misses nothing.
func (s *Conn) exchangeOnce(fd uintptr) bool {
	if s.asked {
		return s.readOnce(fd)
	}
	s.asked = true
	for {
		n, errno := s.writeOnce(fd)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return true
		case errno != 0:
			s.outErr = os.NewSyscallError("write", errno)
			return true
		case n == 0:
			s.written()
			return false
		}
		s.consume(n)
	}
}

// HasMore reports whether there is something to read (FIONREAD is TIOCINQ by its
// other name).
func (s *Conn) HasMore() bool {
	var n int32
	err := s.raw.Control(func(fd uintptr) {
		_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, fd, unix.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	})
	return err == nil && n > 0
}

// Write implements net.Conn.
func (s *Conn) Write(p []byte) (int, error) {
	s.one[0] = p
	n, err := s.WriteParts(s.one[:])
	s.one[0] = nil
	return n, err
}

// WriteParts writes all parts, in one piece where the socket has room. It eats
// the list.
func (s *Conn) WriteParts(parts net.Buffers) (int, error) {
	s.out, s.wrote, s.outErr, s.waited = parts, 0, nil, false
	err := s.raw.Write(s.writeIt)
	s.out = nil
	if s.waited && s.Done != nil {
		s.Done()
	}
	if err == nil {
		err = s.outErr
	}
	return s.wrote, err
}

func (s *Conn) writeAll(fd uintptr) bool {
	for {
		n, errno := s.writeOnce(fd)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			if !s.waited && s.Full != nil {
				s.waited = true
				s.outErr = s.Full()
			}
			return s.outErr != nil
		case errno != 0:
			s.outErr = os.NewSyscallError("write", errno)
			return true
		case n == 0:
			return true
		}
		s.consume(n)
	}
}

// writeOnce makes one call, and returns how much it has taken; 0 when nothing is
// left.
func (s *Conn) writeOnce(fd uintptr) (int, syscall.Errno) {
	for len(s.out) > 0 && len(s.out[0]) == 0 {
		s.out = s.out[1:]
	}
	var call uintptr
	var at unsafe.Pointer
	var n int
	switch len(s.out) {
	case 0:
		return 0, 0
	case 1:
		p := s.out[0][:min(len(s.out[0]), maxCall)]
		sending(p)
		call, at, n = syscall.SYS_WRITE, unsafe.Pointer(unsafe.SliceData(p)), len(p)
	default:
		s.gather()
		call, at, n = syscall.SYS_WRITEV, unsafe.Pointer(unsafe.SliceData(s.vectors)), len(s.vectors)
	}
	k, _, errno := syscall.RawSyscall(call, fd, uintptr(at), uintptr(n))
	clear(s.vectors) // they hold messages, and the next write may be far away
	s.vectors = s.vectors[:0]
	if errno != 0 {
		return 0, errno
	}
	return int(k), 0
}

// gather lists what the next call writes.
func (s *Conn) gather() {
	n := 0
	for _, p := range s.out {
		if p = p[:min(len(p), maxCall-n)]; len(p) == 0 {
			continue
		}
		sending(p)
		v := syscall.Iovec{Base: unsafe.SliceData(p)}
		v.SetLen(len(p))
		s.vectors = append(s.vectors, v)
		if n += len(p); n == maxCall || len(s.vectors) == maxVectors {
			return
		}
	}
}

// consume drops what is written.
func (s *Conn) consume(n int) {
	s.wrote += n
	for n > 0 {
		k := min(n, len(s.out[0]))
		n -= k
		if s.out[0] = s.out[0][k:]; len(s.out[0]) == 0 {
			s.out = s.out[1:]
		}
	}
}

// CloseWrite ends what the other side reads.
func (s *Conn) CloseWrite() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
