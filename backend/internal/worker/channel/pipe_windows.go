package channel

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// Windows has no socket pairs. A channel is a named pipe with a single instance: whoever
// makes it opens its other end at once, so that nobody else can, and hands that end to the
// worker as an inherited handle. The name is random, and dies with the pipe.

// pipeBuffer is how much lies in a pipe for a reader that is late.
const pipeBuffer = 256 << 10

// NewPipe returns the two ends of a channel. ours is a file that Go's poller waits for,
// theirs a handle that no process inherits before [Inheritance] says so. async says that
// theirs is used by overlapped calls, as workers do; what is a process's standard output is
// not.
func NewPipe(name string, async bool) (ours *os.File, theirs windows.Handle, err error) {
	ours, theirs, err = newPipeAt(`\\.\pipe\neso-`+rand.Text(), name, async)
	if err != nil {
		return nil, 0, fmt.Errorf("pipe of the worker: %w", err)
	}
	return ours, theirs, nil
}

// newPipeAt is NewPipe with the pipe's name.
func newPipeAt(at, name string, async bool) (ours *os.File, theirs windows.Handle, err error) {
	only, err := onlyUs()
	if err != nil {
		return nil, 0, err
	}
	path, err := windows.UTF16PtrFromString(at)
	if err != nil {
		return nil, 0, err
	}
	server, err := windows.CreateNamedPipe(path,
		windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		1, pipeBuffer, pipeBuffer, 0, only)
	if err != nil {
		return nil, 0, err
	}
	flags := uint32(windows.SECURITY_SQOS_PRESENT | windows.SECURITY_ANONYMOUS)
	if async {
		flags |= windows.FILE_FLAG_OVERLAPPED
	}
	client, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil { // somebody was faster, or may not
		return nil, 0, errors.Join(err, windows.CloseHandle(server))
	}
	var pid uint32
	if err := windows.GetNamedPipeClientProcessId(server, &pid); err != nil || pid != windows.GetCurrentProcessId() {
		_, _ = windows.CloseHandle(server), windows.CloseHandle(client)
		return nil, 0, fmt.Errorf("process %d opened it: %w", pid, errors.Join(err, os.ErrPermission))
	}
	return os.NewFile(uintptr(server), name), client, nil
}

// onlyUs lets the user of this process open something, and nobody else.
func onlyUs() (*windows.SecurityAttributes, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("the user of this process: %w", err)
	}
	return Secured("D:P(A;;GA;;;" + user.User.Sid.String() + ")")
}

// Secured returns the attributes of an object that no child inherits, with the access list
// of a text in Windows' language for such lists.
func Secured(sddl string) (*windows.SecurityAttributes, error) {
	list, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return nil, fmt.Errorf("access list %s: %w", sddl, err)
	}
	made := &windows.SecurityAttributes{SecurityDescriptor: list}
	made.Length = uint32(sizeOfAttributes)
	return made, nil
}

// NewPair returns both ends of a channel as files, for a worker in this process.
func NewPair(name string) (ours, theirs *os.File, err error) {
	ours, handle, err := NewPipe(name, true)
	if err != nil {
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(handle), name+" of the worker"), nil
}

// Unpolled has nothing to change: what is written goes by way of the poller.
func Unpolled(f *os.File) (*os.File, error) { return f, nil }

// TryWrite leaves everything to who may wait: a pipe does not say how much it takes at once.
func TryWrite(uintptr, []byte) (int, error) { return 0, nil }

// Shutdown ends the reads and writes of this process that wait. The other side sees the end
// when the file is closed, behind what was written before: nobody else has our end.
func Shutdown(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { _ = windows.CancelIoEx(windows.Handle(fd), nil) })
}

// HearNoMore has nothing to do: what a worker has started ends with it, by its job, and with
// that the last one who has the other end.
func HearNoMore(syscall.RawConn) {}

// Blocking has nothing to change: what is no overlapped handle waits.
func Blocking(*os.File) {}

// withHandle calls do with the handle of a file, which is not closed meanwhile, and stays with
// the poller, from which Fd would take it.
func withHandle(f *os.File, do func(windows.Handle) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(windows.Handle(fd)) })
	return cmp.Or(err, failed)
}

// own returns the handle that a number names, which this process was given, as a pipe that
// is not handed on.
func own(number uint64, name string) (*os.File, error) {
	handle := windows.Handle(number)
	if kind, err := windows.GetFileType(handle); number == 0 || number > math.MaxInt32 || err != nil || kind != windows.FILE_TYPE_PIPE {
		return nil, fmt.Errorf("%s: handle %d is not an inherited pipe", name, number)
	}
	if err := windows.SetHandleInformation(handle, windows.HANDLE_FLAG_INHERIT, 0); err != nil {
		return nil, fmt.Errorf("%s: handle %d: %w", name, number, err)
	}
	return os.NewFile(uintptr(handle), name), nil
}
