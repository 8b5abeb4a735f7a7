package memory

import (
	"math/bits"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

// Classes are 64 bytes, then four steps to each power of two: at most a
// quarter of a buffer is unused (half below 256 bytes), and a class is always
// a multiple of the alignment.
const (
	firstShift = 8                     // classes below 1<<firstShift are multiples of 64
	firstSteps = 1<<(firstShift-6) - 1 // 64, 128, 192
	lastShift  = 47
	classes    = firstSteps + 4*(lastShift-firstShift) + 1
)

// classOf returns the smallest class that holds size bytes.
func classOf(size int) int {
	if size <= 1<<firstShift-tensor.Alignment {
		return max(0, (size-1)>>6)
	}
	shift := bits.Len(uint(size-1)) - 1 // 1<<shift < size <= 1<<(shift+1)
	if shift < firstShift {
		return firstSteps // exactly 1<<firstShift
	}
	step := (size - 1 - 1<<shift) >> (shift - 2) // 0..3
	return firstSteps + 4*(shift-firstShift) + step + 1
}

// classSize returns the bytes of a class.
func classSize(c int) int {
	if c < firstSteps {
		return (c + 1) << 6
	}
	c -= firstSteps
	shift, step := c/4+firstShift, c%4
	return 1<<shift + step<<(shift-2)
}

// Whole is the largest size of a buffer whose memory may all be held before it is
// written to. Larger ones hold what has been written to, where the system can do
// that: a body that is declared to be large may never come.
const Whole = 5 << 18

// fresh returns n bytes, the size of a class, at a 64-byte boundary.
func fresh(n int) []byte {
	if n > Whole {
		if b := untouched(n); b != nil {
			return b
		}
	}
	return alignedBytes(n)
}

// drop lets go of what fresh has returned.
func drop(b []byte) {
	if len(b) > Whole {
		unmap(b)
	}
}

// alignedBytes returns n fresh bytes at a 64-byte boundary. The runtime places
// objects whose size is a multiple of 64 there in practice; where it does not,
// a second attempt makes room to shift.
func alignedBytes(n int) []byte {
	b := make([]byte, n)
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%tensor.Alignment == 0 {
		return b
	}
	b = make([]byte, n+tensor.Alignment)
	shift := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % tensor.Alignment)
	return b[shift : shift+n : shift+n]
}
