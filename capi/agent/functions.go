//go:build cgo

package agent

// #include <stdint.h>
import "C"

import (
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/object"
)

//export TRITONREPOAGENT_ModelRepositoryLocation
func TRITONREPOAGENT_ModelRepositoryLocation(a, m, kind, location C.uintptr_t) C.uintptr_t {
	if kind == 0 || location == 0 {
		return null("the place for the artifact type, or for the location,")
	}
	return both(a, m, func(m *model) C.uintptr_t {
		object.Set(uintptr(kind), filesystem)
		m.textLocked(location, m.location)
		return 0
	})
}

//export TRITONREPOAGENT_ModelRepositoryLocationAcquire
func TRITONREPOAGENT_ModelRepositoryLocationAcquire(a, m C.uintptr_t, kind C.int, location C.uintptr_t) C.uintptr_t {
	if location == 0 {
		return null("the place for the location")
	}
	return both(a, m, func(m *model) C.uintptr_t {
		if kind != filesystem {
			return errorf(backend.InvalidArg, "Unexpected artifact type, expects 'TRITONREPOAGENT_ARTIFACT_FILESYSTEM'")
		}
		dir, err := m.acquireLocked()
		if err != nil {
			return C.uintptr_t(object.FromError(err))
		}
		m.textLocked(location, dir)
		return 0
	})
}

//export TRITONREPOAGENT_ModelRepositoryLocationRelease
func TRITONREPOAGENT_ModelRepositoryLocationRelease(a, m, location C.uintptr_t) C.uintptr_t {
	if location == 0 {
		return null("the location")
	}
	path := object.String(uintptr(location))
	return both(a, m, func(m *model) C.uintptr_t {
		switch {
		case m.acquired == "":
			return errorf(backend.Unavailable, "No mutable location to be deleted")
		case filepath.Clean(path) != m.acquired:
			return errorf(backend.InvalidArg, "location '%s' was not acquired, that was '%s'", path, m.acquired)
		case m.location == m.acquired && m.action != backend.AgentUnloadComplete && m.action != backend.AgentLoadFail:
			return errorf(backend.Unavailable, "location '%s' is where the model is loaded from", path)
		}
		dir := m.acquired
		m.acquired = ""
		if err := os.RemoveAll(dir); err != nil {
			return errorf(backend.Internal, "location '%s' cannot be removed: %v", dir, err)
		}
		return 0
	})
}

//export TRITONREPOAGENT_ModelRepositoryUpdate
func TRITONREPOAGENT_ModelRepositoryUpdate(a, m C.uintptr_t, kind C.int, location C.uintptr_t) C.uintptr_t {
	if location == 0 {
		return null("the location")
	}
	path := object.String(uintptr(location))
	return both(a, m, func(m *model) C.uintptr_t {
		switch {
		case !m.acting || m.action != backend.AgentLoad:
			return errorf(backend.InvalidArg,
				"location can only be updated during TRITONREPOAGENT_ACTION_LOAD, current action type is %s", m.actionText())
		case kind == remoteFilesystem:
			return errorf(backend.Unsupported, "a model can be moved to a directory of this machine only, '%s' is remote", path)
		case kind != filesystem:
			return errorf(backend.InvalidArg, "artifact type %d is unknown", int(kind))
		case !filepath.IsAbs(path):
			return errorf(backend.InvalidArg, "location '%s' is no absolute path", path)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return errorf(backend.InvalidArg, "location '%s' is no directory", path)
		}
		m.location = filepath.Clean(path)
		return 0
	})
}

func (m *model) actionText() string {
	if !m.acting {
		return "not set"
	}
	return m.action.String()
}

//export TRITONREPOAGENT_ModelParameterCount
func TRITONREPOAGENT_ModelParameterCount(a, m, count C.uintptr_t) C.uintptr_t {
	if count == 0 {
		return null("the place for the count")
	}
	return both(a, m, func(m *model) C.uintptr_t {
		object.Set(uintptr(count), C.uint32_t(len(m.begun.Parameters)))
		return 0
	})
}

//export TRITONREPOAGENT_ModelParameter
func TRITONREPOAGENT_ModelParameter(a, m C.uintptr_t, index C.uint32_t, name, value C.uintptr_t) C.uintptr_t {
	if name == 0 || value == 0 {
		return null("the place for the parameter's name, or for its value,")
	}
	return both(a, m, func(m *model) C.uintptr_t {
		if uint64(index) >= uint64(len(m.names)) {
			return errorf(backend.InvalidArg, "index out of range for model parameters")
		}
		p, text := m.begun.Parameters[index], &m.names[index]
		object.Set(uintptr(name), text.name.C(p[0]))
		object.Set(uintptr(value), text.value.C(p[1]))
		return 0
	})
}

//export TRITONREPOAGENT_ModelConfig
func TRITONREPOAGENT_ModelConfig(a, m C.uintptr_t, version C.uint32_t, config C.uintptr_t) C.uintptr_t {
	if config == 0 {
		return null("the place for the configuration")
	}
	return both(a, m, func(m *model) C.uintptr_t {
		if version != 1 {
			return errorf(backend.InvalidArg, "model configuration version %d not supported, supported versions are: 1", version)
		}
		var made uintptr
		if len(m.begun.Config) > 0 {
			made = uintptr(object.NewMessage(m.begun.Config))
		}
		object.Set(uintptr(config), made)
		return 0
	})
}

//export TRITONREPOAGENT_ModelState
func TRITONREPOAGENT_ModelState(m, state C.uintptr_t) C.uintptr_t {
	if state == 0 {
		return null("the place for the state")
	}
	return modelOf(m, func(m *model) C.uintptr_t { object.Set(uintptr(state), m.state); return 0 })
}

//export TRITONREPOAGENT_ModelSetState
func TRITONREPOAGENT_ModelSetState(m, state C.uintptr_t) C.uintptr_t {
	return modelOf(m, func(m *model) C.uintptr_t { m.state = uintptr(state); return 0 })
}

//export TRITONREPOAGENT_State
func TRITONREPOAGENT_State(a, state C.uintptr_t) C.uintptr_t {
	if state == 0 {
		return null("the place for the state")
	}
	return agentOf(a, func(l *library) C.uintptr_t {
		l.mu.Lock()
		defer l.mu.Unlock()
		object.Set(uintptr(state), l.state)
		return 0
	})
}

//export TRITONREPOAGENT_SetState
func TRITONREPOAGENT_SetState(a, state C.uintptr_t) C.uintptr_t {
	return agentOf(a, func(l *library) C.uintptr_t {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state = uintptr(state)
		return 0
	})
}
