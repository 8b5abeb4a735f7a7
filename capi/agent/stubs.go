//go:build cgo

package agent

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

//export TRITONREPOAGENT_ModelConfig
func TRITONREPOAGENT_ModelConfig() C.uintptr_t { return unsupported("TRITONREPOAGENT_ModelConfig") }

//export TRITONREPOAGENT_ModelParameter
func TRITONREPOAGENT_ModelParameter() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelParameter")
}

//export TRITONREPOAGENT_ModelParameterCount
func TRITONREPOAGENT_ModelParameterCount() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelParameterCount")
}

//export TRITONREPOAGENT_ModelRepositoryLocation
func TRITONREPOAGENT_ModelRepositoryLocation() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelRepositoryLocation")
}

//export TRITONREPOAGENT_ModelRepositoryLocationAcquire
func TRITONREPOAGENT_ModelRepositoryLocationAcquire() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelRepositoryLocationAcquire")
}

//export TRITONREPOAGENT_ModelRepositoryLocationRelease
func TRITONREPOAGENT_ModelRepositoryLocationRelease() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelRepositoryLocationRelease")
}

//export TRITONREPOAGENT_ModelRepositoryUpdate
func TRITONREPOAGENT_ModelRepositoryUpdate() C.uintptr_t {
	return unsupported("TRITONREPOAGENT_ModelRepositoryUpdate")
}

//export TRITONREPOAGENT_ModelSetState
func TRITONREPOAGENT_ModelSetState() C.uintptr_t { return unsupported("TRITONREPOAGENT_ModelSetState") }

//export TRITONREPOAGENT_ModelState
func TRITONREPOAGENT_ModelState() C.uintptr_t { return unsupported("TRITONREPOAGENT_ModelState") }

//export TRITONREPOAGENT_SetState
func TRITONREPOAGENT_SetState() C.uintptr_t { return unsupported("TRITONREPOAGENT_SetState") }

//export TRITONREPOAGENT_State
func TRITONREPOAGENT_State() C.uintptr_t { return unsupported("TRITONREPOAGENT_State") }
