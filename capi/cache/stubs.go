//go:build cgo

package cache

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/object"
)

// unsupported answers what this library does not do yet.
func unsupported(function string) C.uintptr_t {
	return C.uintptr_t(object.Errorf(backend.Unsupported, "%s is not supported", function))
}

//export TRITONCACHE_CacheEntryAddBuffer
func TRITONCACHE_CacheEntryAddBuffer() C.uintptr_t {
	return unsupported("TRITONCACHE_CacheEntryAddBuffer")
}

//export TRITONCACHE_CacheEntryBufferCount
func TRITONCACHE_CacheEntryBufferCount() C.uintptr_t {
	return unsupported("TRITONCACHE_CacheEntryBufferCount")
}

//export TRITONCACHE_CacheEntryDelete
func TRITONCACHE_CacheEntryDelete() C.uintptr_t { return unsupported("TRITONCACHE_CacheEntryDelete") }

//export TRITONCACHE_CacheEntryGetBuffer
func TRITONCACHE_CacheEntryGetBuffer() C.uintptr_t {
	return unsupported("TRITONCACHE_CacheEntryGetBuffer")
}

//export TRITONCACHE_CacheEntryNew
func TRITONCACHE_CacheEntryNew() C.uintptr_t { return unsupported("TRITONCACHE_CacheEntryNew") }

//export TRITONCACHE_CacheEntrySetBuffer
func TRITONCACHE_CacheEntrySetBuffer() C.uintptr_t {
	return unsupported("TRITONCACHE_CacheEntrySetBuffer")
}

//export TRITONCACHE_Copy
func TRITONCACHE_Copy() C.uintptr_t { return unsupported("TRITONCACHE_Copy") }
