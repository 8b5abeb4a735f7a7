//go:build cgo

package cache

// #include <stdint.h>
//
// static uintptr_t neso_cache_initialize(void* f, uintptr_t* made, const char* config) {
//   return ((uintptr_t(*)(uintptr_t*, const char*))f)(made, config);
// }
// static uintptr_t neso_cache_finalize(void* f, uintptr_t cache) { return ((uintptr_t(*)(uintptr_t))f)(cache); }
// static uintptr_t neso_cache_call(void* f, uintptr_t cache, uintptr_t key, uintptr_t entry, uintptr_t allocator) {
//   return ((uintptr_t(*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t))f)(cache, key, entry, allocator);
// }
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/caches/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/native"
	"github.com/nesoserve/neso/capi/object"
)

// library is the cache of this process.
type library struct {
	server  *host.Server
	cache   C.uintptr_t // the library's own
	ready   bool
	entries struct{ initialize, finalize, lookup, insert unsafe.Pointer }
}

// neso_cache_main is the program neso-host for a response cache: it serves until the
// server says that it is enough, and returns the exit status.
//
//export neso_cache_main
func neso_cache_main() C.int {
	server, err := host.Connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	native.Catch()
	return C.int(server.Serve(&library{server: server}))
}

// Open implements host.Cache.
func (l *library) Open(o *host.Open) error {
	if l.ready {
		return backend.Errorf(backend.Internal, "worker protocol: a cache was opened before")
	}
	native.LogTo(l.server, o.Verbose)
	native.Preload(o.Preload)
	e := &l.entries
	_, err := native.Link(o.Library, []native.Entry{
		{Name: "TRITONCACHE_CacheInitialize", To: &e.initialize, Required: true},
		{Name: "TRITONCACHE_CacheFinalize", To: &e.finalize, Required: true},
		{Name: "TRITONCACHE_CacheLookup", To: &e.lookup, Required: true},
		{Name: "TRITONCACHE_CacheInsert", To: &e.insert, Required: true},
	})
	if err != nil {
		return err
	}
	config := object.NewText(string(o.Config))
	defer object.FreeText(config)
	if err := taken(C.neso_cache_initialize(e.initialize, &l.cache, *(**C.char)(unsafe.Pointer(&config)))); err != nil {
		return err
	}
	l.ready = true
	return nil
}

// taken returns the error that a library's function returned, which is ours then.
func taken(e C.uintptr_t) error { return object.Taken(handle.Handle(e)) }

// Lookup implements host.Cache.
func (l *library) Lookup(key string, give func(size int) ([]byte, error)) error {
	e := &entry{give: give}
	if err := l.call(l.entries.lookup, key, e); err != nil {
		return err
	}
	if !e.copied {
		return backend.Errorf(backend.Internal, "TRITONCACHE_CacheLookup found something, and did not call TRITONCACHE_Copy")
	}
	return nil
}

// Insert implements host.Cache.
func (l *library) Insert(key string, value []byte) error {
	e := &entry{insert: true, value: value, buffers: []buffer{{size: uint64(len(value))}}}
	return l.call(l.entries.insert, key, e)
}

// call has the library do something about an entry, which is gone then.
func (l *library) call(f unsafe.Pointer, key string, e *entry) error {
	if !l.ready {
		return backend.Errorf(backend.Internal, "worker protocol: the cache has not been opened")
	}
	h, a := entries.New(e), allocators.New(e)
	defer entries.Take(h)
	defer allocators.Take(a)
	text := object.NewText(key)
	defer object.FreeText(text)
	return taken(C.neso_cache_call(f, l.cache, C.uintptr_t(text), C.uintptr_t(h), C.uintptr_t(a)))
}

// Exit implements host.Cache.
func (l *library) Exit() {
	if !l.ready {
		return
	}
	l.ready = false
	if err := taken(C.neso_cache_finalize(l.entries.finalize, l.cache)); err != nil {
		fmt.Fprintln(os.Stderr, "TRITONCACHE_CacheFinalize:", err)
	}
}
