package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const sizeOfAttributes = unsafe.Sizeof(windows.SecurityAttributes{})

// variable tells a worker the handles of its ends, as two numbers with a comma between them.
const variable = "NESO_WORKER_CHANNELS"

// passLimit is how long a worker may leave what it is handed in a full pipe. Its connection is
// locked meanwhile, and ends then.
const passLimit = 100 * time.Millisecond

// Peer is the process at the other end, as a handle that allows to give it handles. The zero
// value is this process.
type Peer struct{ process *os.File }

// PeerOf returns the process at the other end of a control channel that it has made, 0 where
// that is not known.
func PeerOf(control *os.File) int {
	var pid uint32
	if err := withHandle(control, func(pipe windows.Handle) error { return windows.GetNamedPipeServerProcessId(pipe, &pid) }); err != nil {
		return 0
	}
	return int(pid)
}

// PeerFrom returns the process of a handle, which stays the caller's.
func PeerFrom(process windows.Handle) (Peer, error) {
	self := windows.CurrentProcess()
	var ours windows.Handle
	if err := windows.DuplicateHandle(self, process, self, &ours, windows.PROCESS_DUP_HANDLE, false, 0); err != nil {
		return Peer{}, fmt.Errorf("handle of the worker: %w", err)
	}
	return Peer{os.NewFile(uintptr(ours), "worker")}, nil
}

// Close lets go of the handle.
func (p Peer) Close() {
	if p.process != nil {
		_ = p.process.Close()
	}
}

// EndsOf returns the ends of a process that has left us its channels, which it has made.
func EndsOf(control, descriptors *os.File) (Ends, error) {
	ends := Ends{Control: control, Descriptors: descriptors}
	pid, other := PeerOf(control), PeerOf(descriptors)
	if pid != other || pid == 0 {
		return ends, fmt.Errorf("the channels are of two processes, %d and %d", pid, other)
	}
	process, err := windows.OpenProcess(windows.PROCESS_DUP_HANDLE|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return ends, fmt.Errorf("process %d, which is to be given shared memory: %w", pid, err)
	}
	ends.Peer = Peer{os.NewFile(uintptr(process), "process")}
	return ends, nil
}

// Pass gives a file to the worker, which takes it with the frame that names it: as a handle
// of its own, with the rights that ours has, whose number goes over the channel.
func (e *Ends) Pass(file *os.File) error {
	self := windows.CurrentProcess()
	var theirs windows.Handle
	err := withHandle(file, func(source windows.Handle) error {
		return e.Peer.with(func(target windows.Handle) error {
			return windows.DuplicateHandle(self, source, target, &theirs, 0, false, windows.DUPLICATE_SAME_ACCESS)
		})
	})
	if err != nil {
		return fmt.Errorf("pass a handle to the worker: %w", err)
	}
	_ = e.Descriptors.SetWriteDeadline(time.Now().Add(passLimit))
	_, err = e.Descriptors.Write(binary.LittleEndian.AppendUint64(nil, uint64(theirs)))
	_ = e.Descriptors.SetWriteDeadline(time.Time{})
	if err != nil {
		_ = e.Peer.with(func(target windows.Handle) error { // which does not know that it has it
			return windows.DuplicateHandle(target, theirs, 0, nil, 0, false, windows.DUPLICATE_CLOSE_SOURCE)
		})
		return fmt.Errorf("pass a handle to the worker: %w", err)
	}
	return nil
}

// with calls do with the handle of the process.
func (p Peer) with(do func(windows.Handle) error) error {
	if p.process == nil {
		return do(windows.CurrentProcess())
	}
	return withHandle(p.process, do)
}

// SendFiles fails: only Ends know who is to get them.
func SendFiles(*os.File, ...*os.File) error {
	return fmt.Errorf("descriptors over sockets: %w", errors.ErrUnsupported)
}

// ReceiveFile takes one handle.
func ReceiveFile(channel *os.File) (*os.File, error) {
	var number [8]byte
	if _, err := io.ReadFull(channel, number[:]); err != nil {
		return nil, fmt.Errorf("handle of shared memory: %w", err)
	}
	return os.NewFile(uintptr(binary.LittleEndian.Uint64(number[:])), "segment"), nil
}

// Inheritance returns the variable of the environment that tells a child of its ends.
func Inheritance(control, descriptors windows.Handle) string {
	return fmt.Sprintf("%s=%d,%d", variable, control, descriptors)
}

// Inherited are the worker's ends of its channels, whose handles the environment tells.
func Inherited() (control, descriptors *os.File, err error) {
	text := os.Getenv(variable)
	_ = os.Unsetenv(variable) // of no use to what the worker starts
	first, second, _ := strings.Cut(text, ",")
	var files [2]*os.File
	for i, number := range []string{first, second} {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("%s is '%s', expected two handles of a server", variable, text)
		}
		if files[i], err = own(n, [2]string{"control", "descriptors"}[i]); err != nil {
			return nil, nil, err
		}
	}
	return files[0], files[1], nil
}

// InheritedAt returns the channels that this process was started with, by their handles.
func InheritedAt(control, descriptors int) (*os.File, *os.File, error) {
	first, err := own(uint64(control), "control")
	if err != nil {
		return nil, nil, err
	}
	second, err := own(uint64(descriptors), "descriptors")
	return first, second, err
}
