package library

import "unsafe"

// Function is the address of a C function.
type Function uintptr

// Pointer turns an address that C gave into a pointer. The memory is C's, or
// pinned: the collector neither moves nor frees it.
func Pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address)) // go vet takes the plain conversion for a mistake
}

// Bytes returns n bytes of C's memory as they lie there; nil for n of 0.
func Bytes(address uintptr, n int) []byte {
	if n <= 0 || address == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(Pointer(address)), n)
}

// CString returns s with a NUL behind it, for an argument of type const char*.
// What follows a NUL inside s is not seen by C.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// GoString copies a C string; "" for NULL.
func GoString(address uintptr) string {
	if address == 0 {
		return ""
	}
	start := Pointer(address)
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}
