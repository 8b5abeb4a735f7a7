//go:build cgo

package cache

// #include <stdint.h>
import "C"

import "github.com/nesoserve/neso/capi/object"

//export TRITONCACHE_ApiVersion
func TRITONCACHE_ApiVersion(major, minor C.uintptr_t) C.uintptr_t {
	object.Set(uintptr(major), C.uint32_t(0))
	object.Set(uintptr(minor), C.uint32_t(1))
	return 0
}
