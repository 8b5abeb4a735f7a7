//go:build cgo

package capi

// #include <stdlib.h>
// extern char** environ;
// static const char* neso_variable(int i) { return environ ? environ[i] : 0; }
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

// variables are all of them, as the program has them now, for its workers.
func variables() []string {
	list := []string{}
	for i := C.int(0); ; i++ {
		line := C.neso_variable(i)
		if line == nil {
			return list
		}
		list = append(list, C.GoString(line))
	}
}
