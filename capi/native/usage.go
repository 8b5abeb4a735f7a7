//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// What a library says of its memory goes to the server, which shows it in the statistics.

// said sends what a model or an instance says to the server. usage is an array of so many
// TRITONSERVER_BufferAttributes, which stay the library's.
func (u *Upstream) said(m host.Memory, usage C.uintptr_t, count C.uint32_t) C.uintptr_t {
	switch {
	case count > host.MaxMemoryUsage:
		return errorf(backend.InvalidArg, "%d figures of memory usage, at most %d", count, host.MaxMemoryUsage)
	case count > 0 && usage == 0:
		return C.uintptr_t(object.Null("the memory usage"))
	}
	m.Usage = []backend.MemoryUsage{}
	if count > 0 {
		for _, h := range unsafe.Slice((*handle.Handle)(at(uintptr(usage))), count) {
			a, ok := object.Attributes(h)
			if !ok {
				return stale("the buffer attributes")
			}
			m.Usage = append(m.Usage, backend.MemoryUsage{Type: host.MemoryType(int(a.Type)), ID: a.TypeID, Bytes: a.Size})
		}
	}
	if err := u.server.Control(host.Control{Op: "memory", Memory: &m}, nil); err != nil {
		return result(err)
	}
	return 0
}

//export TRITONBACKEND_ModelReportMemoryUsage
func TRITONBACKEND_ModelReportMemoryUsage(h, usage C.uintptr_t, count C.uint32_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { return m.up.said(host.Memory{Model: m.number}, usage, count) })
}

//export TRITONBACKEND_ModelInstanceReportMemoryUsage
func TRITONBACKEND_ModelInstanceReportMemoryUsage(h, usage C.uintptr_t, count C.uint32_t) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t {
		return in.model.up.said(host.Memory{Instance: in.number}, usage, count)
	})
}
