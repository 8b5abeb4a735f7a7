package board

import (
	"os"

	"golang.org/x/sys/unix"
)

// bell has a worker that runs something send the answers that it holds. It is a pipe; a
// thread of the worker reads its other end. It costs nothing while nobody rings. A thread
// that looks now and then would cost something: in Python it takes the interpreter away
// from the model each time.
type bell struct{ fd int }

// newBell returns the server's end and the worker's, which is to be closed when
// it has been sent.
func newBell() (*bell, *os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	// Only the server's end: a worker that does not read must not hold it up.
	if err := unix.SetNonblock(ends[1], true); err != nil {
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return &bell{ends[1]}, os.NewFile(uintptr(ends[0]), "bell"), nil
}

// ring does not wait; a worker that has not heard the last ones hears no more.
func (b *bell) ring() { _, _ = unix.Write(b.fd, []byte{0}) }

func (b *bell) close() { _ = unix.Close(b.fd) }
