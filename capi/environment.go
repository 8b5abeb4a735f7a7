//go:build cgo

package capi

// #include <stdlib.h>
import "C"

import "unsafe"

// environment returns a variable as the program has it now. Package os knows the
// variables of the process's start alone: it does not see what a program sets by
// setenv before it makes a server.
func environment(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	return C.GoString(C.getenv(key))
}
