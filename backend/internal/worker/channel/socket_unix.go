//go:build unix

package channel

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Shutdown ends both directions of the socket for everybody who has it.
func Shutdown(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// HearNoMore makes the end of the socket behind what has come.
func HearNoMore(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
}

// Peer is nobody here: a descriptor goes to whoever has the other end.
type Peer struct{}

// Close has nothing to let go of.
func (Peer) Close() {}

// EndsOf returns the ends of a process that has passed or left us its channels.
func EndsOf(control, descriptors *os.File) (Ends, error) {
	return Ends{Control: control, Descriptors: descriptors}, nil
}

// Pass gives a file to the worker, which takes it with the frame that names it.
func (e *Ends) Pass(file *os.File) error { return SendFiles(e.Descriptors, file) }

// SendFiles passes descriptors in one message with one byte.
func SendFiles(channel *os.File, files ...*os.File) error {
	raw, err := channel.SyscallConn()
	if err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fc, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := fc.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	var sendErr error
	if err := raw.Control(func(fd uintptr) {
		_, sendErr = unix.SendmsgN(int(fd), []byte{0}, unix.UnixRights(fds...), nil, 0)
	}); err != nil {
		return err
	}
	if sendErr != nil {
		return fmt.Errorf("pass descriptors to the worker: %w", sendErr)
	}
	return nil
}

// Blocking has writers wait for a pipe that is full. Go makes its ends otherwise,
// and a model that prints faster than the log takes it would fail.
func Blocking(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), false) })
	}
}

// NewPair returns the two ends of a stream pair: ours does not block, the
// worker's does. Neither is inherited unless asked for.
func NewPair(name string) (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name+" of the worker"), nil
}
