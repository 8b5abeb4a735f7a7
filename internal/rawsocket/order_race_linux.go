//go:build race

package rawsocket

import (
	"runtime"
	"syscall"
	"unsafe"
)

// What one side of a socket has done before it writes comes before what the other
// side does after it has read. Package syscall says so to the race detector in its
// Read and Write, by a variable of its own that stands for all sockets. A call of
// them that moves nothing says it for a raw one. The bytes are said to be written
// and read here, since the detector does not see the kernel do it.

// received says that p has been filled with what came.
func received(fd uintptr, p []byte) {
	if len(p) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(p)), len(p))
	}
	_, _ = syscall.Read(int(fd), nil)
}

// sending says that p is about to be written.
func sending(p []byte) {
	if len(p) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(p)), len(p))
	}
	_, _ = syscall.Write(-1, nil)
}
