//go:build cgo

package object

// #include <stdint.h>
// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Text is a string, or other bytes, in memory of C, made when a C program first
// asks for it. It belongs to the object that it is a field of, which frees it.
type Text struct{ at atomic.Uintptr }

// C returns the address of s with a NUL behind it. All calls for one Text give the
// same s.
func (t *Text) C(s string) uintptr {
	if at := t.at.Load(); at != 0 {
		return at
	}
	made := NewText(s)
	if t.at.CompareAndSwap(0, made) {
		return made
	}
	FreeText(made)
	return t.at.Load()
}

// Free ends the memory. The text may be made again.
func (t *Text) Free() { FreeText(t.at.Swap(0)) }

// NewText copies s, with a NUL behind it, into memory of C; FreeText ends it.
func NewText(s string) uintptr {
	p := C.malloc(C.size_t(len(s) + 1))
	b := unsafe.Slice((*byte)(p), len(s)+1)
	copy(b, s)
	b[len(s)] = 0
	return uintptr(p)
}

// NewNumber puts 8 bytes into memory of C; FreeText ends it.
func NewNumber(bits uint64) uintptr {
	p := C.malloc(8)
	*(*uint64)(p) = bits
	return uintptr(p)
}

// Block is one piece of C's memory for several texts and numbers.
type Block struct {
	at, next uintptr
}

// NewBlock makes one of so many bytes; numbers are put in before texts.
func NewBlock(size int) Block {
	if size == 0 {
		size = 1
	}
	at := uintptr(C.malloc(C.size_t(size)))
	return Block{at, at}
}

// Text puts a text and a NUL into the block.
func (b *Block) Text(s string) uintptr {
	at := b.next
	to := unsafe.Slice((*byte)(pointer(at)), len(s)+1)
	copy(to, s)
	to[len(s)] = 0
	b.next += uintptr(len(s) + 1)
	return at
}

// Int64s puts numbers into the block.
func (b *Block) Int64s(v []int64) uintptr {
	at := b.next
	if len(v) > 0 {
		copy(unsafe.Slice((*int64)(pointer(at)), len(v)), v)
	}
	b.next += uintptr(8 * len(v))
	return at
}

// Free ends the memory; that of the zero value is none.
func (b *Block) Free() {
	FreeText(b.at)
	*b = Block{}
}

// FreeText ends what NewText has made; 0 is ignored.
func FreeText(at uintptr) {
	if at != 0 {
		C.free(pointer(at))
	}
}

// pointer turns an address of C's memory into a pointer. Addresses stand in
// uintptr since what a program hands over need not be one.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// Bytes returns n bytes of C's memory, which stay there: nil for none. The second
// result is false for what cannot be memory.
func Bytes(at uintptr, n uint64) ([]byte, bool) {
	switch {
	case n == 0:
		return nil, true
	case at == 0 || n > math.MaxInt/2:
		return nil, false
	}
	return unsafe.Slice((*byte)(pointer(at)), int(n)), true
}

// String copies a string of C; "" for null.
func String(at uintptr) string {
	if at == 0 {
		return ""
	}
	p := (*C.char)(pointer(at))
	return C.GoStringN(p, C.int(C.strnlen(p, math.MaxInt32)))
}

// Equal reports whether a string of C is s. It reads no further than that does.
func Equal(at uintptr, s string) bool {
	if at == 0 {
		return false
	}
	p := pointer(at)
	for i := range len(s) {
		if c := *(*byte)(unsafe.Add(p, i)); c != s[i] || c == 0 {
			return false
		}
	}
	return *(*byte)(unsafe.Add(p, len(s))) == 0
}

// Int64s copies n numbers of C's memory.
func Int64s(at uintptr, n uint64) []int64 {
	if at == 0 || n == 0 {
		return nil
	}
	return append([]int64(nil), unsafe.Slice((*int64)(pointer(at)), int(n))...)
}

// Set writes v where a C program wants it; an address of null is ignored.
func Set[T any](at uintptr, v T) {
	if at != 0 {
		*(*T)(pointer(at)) = v
	}
}

// Read returns what stands at an address of C's memory, which is not null.
func Read[T any](at uintptr) T { return *(*T)(pointer(at)) }

// Lend gives a C program the address of Go's memory until free is called: the bytes
// themselves stay where they are.
func Lend(b []byte) (at uintptr, free func()) {
	if len(b) == 0 {
		return 0, func() {}
	}
	var p runtime.Pinner
	p.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0])), p.Unpin
}
