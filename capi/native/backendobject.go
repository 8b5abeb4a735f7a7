//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// The version of the interface.
const versionMajor, versionMinor = 1, 19

//export TRITONBACKEND_ApiVersion
func TRITONBACKEND_ApiVersion(major, minor C.uintptr_t) C.uintptr_t {
	put[uint32](major, versionMajor)
	put[uint32](minor, versionMinor)
	return 0
}

func backendOf(h C.uintptr_t, f func(l *library) C.uintptr_t) C.uintptr_t {
	l := backends.Get(handle.Handle(h))
	if l == nil {
		return stale("the backend")
	}
	return f(l)
}

//export TRITONBACKEND_BackendName
func TRITONBACKEND_BackendName(b, name C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { text(name, &l.nameText, l.name); return 0 })
}

//export TRITONBACKEND_BackendConfig
func TRITONBACKEND_BackendConfig(b, config C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { return l.told.put(config, l.config) })
}

//export TRITONBACKEND_BackendExecutionPolicy
func TRITONBACKEND_BackendExecutionPolicy(b, policy C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { put(policy, l.policy); return 0 })
}

//export TRITONBACKEND_BackendSetExecutionPolicy
func TRITONBACKEND_BackendSetExecutionPolicy(b C.uintptr_t, policy C.int) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t {
		if policy < executionBlocking || policy > executionDeviceBlocking {
			return errorf(backend.InvalidArg, "execution policy %d is unknown", policy)
		}
		if l.initializing {
			l.policy = policy
		}
		return 0
	})
}

//export TRITONBACKEND_BackendArtifacts
func TRITONBACKEND_BackendArtifacts(b, kind, location C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t {
		put[C.int](kind, 0)
		text(location, &l.folderText, l.folder)
		return 0
	})
}

//export TRITONBACKEND_BackendMemoryManager
func TRITONBACKEND_BackendMemoryManager(b, manager C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { put(manager, l.manager); return 0 })
}

//export TRITONBACKEND_BackendState
func TRITONBACKEND_BackendState(b, state C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { put(state, l.state); return 0 })
}

//export TRITONBACKEND_BackendSetState
func TRITONBACKEND_BackendSetState(b, state C.uintptr_t) C.uintptr_t {
	return backendOf(b, func(l *library) C.uintptr_t { l.state = uintptr(state); return 0 })
}

//export TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup
func TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a C.uintptr_t, kind C.int, count C.uint64_t, ids C.uintptr_t,
	n C.uint64_t,
) C.uintptr_t {
	to := attributes.Get(handle.Handle(a))
	switch {
	case to == nil:
		return stale("the backend attribute")
	case kind < 0 || kind > 3:
		return errorf(backend.InvalidArg, "instance group kind %d is unknown", kind)
	}
	to.groups = append(to.groups, group{kind: kind, count: uint64(count), devices: object.Int64s(uintptr(ids), uint64(n))})
	return 0
}

//export TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading
func TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(a C.uintptr_t, enabled C.uint8_t) C.uintptr_t {
	to := attributes.Get(handle.Handle(a))
	if to == nil {
		return stale("the backend attribute")
	}
	to.parallel = enabled != 0
	return 0
}
