//go:build cgo

package capi

// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <stdint.h>
//
// static const char* neso_library(void) {
//   Dl_info info;
//   static const char here;
//   return dladdr(&here, &info) ? info.dli_fname : 0;
// }
import "C"

// libraryPath is the file that this library was loaded from, or "".
func libraryPath() string { return C.GoString(C.neso_library()) }
