package channel

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/rawsocket"
)

// The system calls of this file do not wait, so Go's scheduler need not hear of them. An
// ordinary system call wakes the scheduler's watchdog thread, which may hand the
// processor's work to another thread, twice a request: see package rawsocket.

// Unpolled returns the socket of f as a file that the poller does not watch: the poller
// would wake each time that something can be read, or that the other side has taken
// something. Its reads and writes wait. f is closed.
func Unpolled(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return f, err
	}
	own, failure := -1, error(nil)
	if err := raw.Control(func(fd uintptr) {
		if own, failure = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); failure == nil {
			failure = unix.SetNonblock(own, false) // of both, which os.NewFile goes by
		}
	}); err != nil {
		return f, err
	}
	if failure != nil {
		if own >= 0 {
			_ = unix.Close(own)
		}
		return f, fmt.Errorf("control channel: %w", failure)
	}
	name := f.Name()
	_ = f.Close() // leaves the poller; the socket lives on
	return os.NewFile(uintptr(own), name), nil
}

// TryWrite writes what a socket takes without waiting.
func TryWrite(fd uintptr, buf []byte) (int, error) {
	switch n, errno := rawsocket.Send(fd, buf); errno {
	case 0, syscall.EAGAIN:
		return n, nil
	default:
		return 0, errno
	}
}

// Reader reads a socket. One goroutine at a time may use it.
type Reader struct {
	raw   syscall.RawConn
	buf   []byte
	n     int
	errno syscall.Errno
	try   func(uintptr) bool

	polling polling
	poll    func(uintptr)
	came    bool
}

// NewReader returns a reader of the socket of f; its deadlines hold there too.
func NewReader(f *os.File) (*Reader, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &Reader{raw: raw}
	d.try, d.poll = d.receiveOrPark, d.pollSocket
	return d, nil
}

// receive reports whether anything came, an error or the end.
func (d *Reader) receive(fd uintptr) bool {
	n, errno := rawsocket.Receive(fd, d.buf)
	if errno == syscall.EAGAIN {
		return false
	}
	d.n, d.errno = n, errno
	return true
}

func (d *Reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	d.buf = b
	var err error
	if !d.polled() {
		err = d.raw.Read(d.try)
	}
	d.buf = nil
	switch {
	case err != nil:
		return 0, err
	case d.errno != 0:
		return 0, os.NewSyscallError("recvfrom", d.errno)
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}
