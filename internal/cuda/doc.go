// Package cuda is the binding to the driver library of NVIDIA GPUs, opened at
// run time: devices, their primary contexts, memory, memory that processes share
// by handles, and copies. It needs no toolkit and no C compiler; on platforms
// without shared handles [Open] fails.
//
// Open driver.go first. The package owns nothing but what its callers release:
// a [Context] is theirs until [Context.Release], and so is what they allocate or
// import within it.
package cuda

import (
	"errors"
	"fmt"
)

// ErrNoGPU says that there is no GPU driver, or no GPU.
var ErrNoGPU = errors.New("GPUs not supported")

// DefaultLibrary comes with the driver.
const DefaultLibrary = "libcuda.so.1"

// HandleSize is the size of a memory handle in bytes.
const HandleSize = 64

// Handle names memory of a GPU for other processes (CUipcMemHandle).
type Handle = [HandleSize]byte

// UUID names a GPU, whatever number a process gives it.
type UUID = [16]byte

// Pointer is an address on a device; 0 is none.
type Pointer uint64

// Text returns a UUID as the driver's tools show it.
func Text(u UUID) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
