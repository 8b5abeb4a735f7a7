//go:build cgo

package native

// #include <stdlib.h>
// #include "loader.h"
// #include "views.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/capi/handle"
)

// What libraries read of requests, many times each, stands in views.c, in C: a call of Go
// for each getter would take longer than what the library does. Here views are filled in
// and ended. A view is filled in after its handle was made, and ended before its handle
// is taken: so the lock of the handle's table stands between the end of one and the next
// one in its place.

const (
	viewChunk = C.NESO_VIEW_CHUNK
	viewNames = C.NESO_VIEW_NAMES
)

var growing sync.Mutex // of the lists of chunks

// viewOf returns the view of a handle's place, nil where there is no memory for it. It is
// never freed.
func viewOf[V any](chunks *[C.NESO_VIEW_CHUNKS]*V, h handle.Handle) *V {
	const mask = 1<<C.NESO_VIEW_INDEX_BITS - 1
	index := uint32(h) & mask
	at := (*unsafe.Pointer)(unsafe.Pointer(&chunks[index>>C.NESO_VIEW_CHUNK_BITS]))
	chunk := atomic.LoadPointer(at)
	if chunk == nil {
		growing.Lock()
		if chunk = atomic.LoadPointer(at); chunk == nil {
			var v V
			chunk = C.calloc(viewChunk, C.size_t(unsafe.Sizeof(v)))
			atomic.StorePointer(at, chunk)
		}
		growing.Unlock()
		if chunk == nil {
			return nil
		}
	}
	return &(*[viewChunk]V)(chunk)[index%viewChunk]
}

func live(v *C.uint64_t) *uint64 { return (*uint64)(unsafe.Pointer(v)) }

// show lets the library read the input without a call, unless it is in pieces.
func (i *input) show() {
	if i.pieces != nil {
		return
	}
	v := viewOf(&C.neso_input_views, i.handle)
	if v == nil {
		return
	}
	v.name, v.shape, v.data = C.uintptr_t(i.name), C.uintptr_t(i.shape), C.uintptr_t(i.data)
	v.size, v.datatype, v.dims = C.uint64_t(len(i.tensor.Data)), C.uint32_t(i.tensor.Datatype), C.uint32_t(i.dims)
	atomic.StoreUint64(live(&v.live), uint64(i.handle))
}

func (i *input) hide() {
	if v := viewOf(&C.neso_input_views, i.handle); v != nil {
		atomic.CompareAndSwapUint64(live(&v.live), uint64(i.handle), 0)
	}
}

// show lets the library read the request without calls, its inputs too. One with more
// tensors than a view has room for is asked for each.
func (r *request) show() {
	if len(r.inputs) > viewNames || len(r.of.Requested) > viewNames {
		return
	}
	v := viewOf(&C.neso_request_views, r.handle)
	if v == nil {
		return
	}
	for k := range r.inputs {
		i := &r.inputs[k]
		v.input_handles[k], v.input_names[k] = C.uint64_t(i.known()), C.uintptr_t(i.name)
		i.show()
	}
	for k, name := range r.of.Requested {
		v.output_names[k] = C.uintptr_t(r.instance.model.named(name))
	}
	v.inputs, v.outputs, v.parameters = C.uint32_t(len(r.inputs)), C.uint32_t(len(r.of.Requested)), C.uint32_t(len(r.parameters))
	v.flags, v.timeout, v.id = C.uint32_t(r.of.Flags), C.uint64_t(r.of.Timeout), C.uintptr_t(r.id)
	v.correlation, v.numbered, v.traced = C.uint64_t(r.of.Correlation.Number), 0, 0
	if r.of.Correlation.Text == "" {
		v.numbered = 1
	}
	if r.of.Trace != "" {
		v.traced = 1
	}
	atomic.StoreUint64(live(&v.live), uint64(r.handle))
}

func (r *request) hide() {
	if v := viewOf(&C.neso_request_views, r.handle); v != nil {
		atomic.CompareAndSwapUint64(live(&v.live), uint64(r.handle), 0)
	}
}
