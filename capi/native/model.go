//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
)

// model is a TRITONBACKEND_Model: one version.
type model struct {
	handle  handle.Handle
	number  uint32 // in the worker
	server  handle.Handle
	up      Upstream
	library *library
	cfg     backend.Config
	state   uintptr

	mu      sync.Mutex
	config  string // as JSON
	changed bool   // by the model itself
	may     bool   // the model may say what it knows

	name, directory object.Text
	names           sync.Map // of tensors: string to *object.Text
	devices         devices
}

var (
	models  = handle.NewTable[model](kindModel)
	servers = handle.NewTable[Upstream](kindServer)
)

// load makes a model.
func (l *library) load(load *host.Load, server *host.Server) (*model, error) {
	m := &model{number: load.Model, library: l, cfg: load.View, config: string(load.View.JSON), may: load.Complete}
	l.attributes()
	m.up.server = server
	m.handle, m.server = models.New(m), servers.New(&m.up)
	if err := call(l.entry.modelInitialize, m.handle); err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

func (m *model) end() error {
	err := call(m.library.entry.modelFinalize, m.handle)
	m.free()
	return err
}

func (m *model) free() {
	models.Take(m.handle)
	servers.Take(m.server)
	m.name.Free()
	m.directory.Free()
	m.names.Range(func(key, value any) bool {
		value.(*object.Text).Free() //nolint:forcetypeassert // named puts nothing else there
		m.names.Delete(key)
		return true
	})
}

// named returns the address of a name that the model has.
func (m *model) named(s string) uintptr {
	if t, ok := m.names.Load(s); ok {
		return t.(*object.Text).C(s) //nolint:forcetypeassert // see free
	}
	t, _ := m.names.LoadOrStore(s, &object.Text{})
	return t.(*object.Text).C(s) //nolint:forcetypeassert // see free
}

func modelOf(h C.uintptr_t, f func(m *model) C.uintptr_t) C.uintptr_t {
	m := models.Get(handle.Handle(h))
	if m == nil {
		return stale("the model")
	}
	return f(m)
}

//export TRITONBACKEND_ModelName
func TRITONBACKEND_ModelName(h, name C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { text(name, &m.name, m.cfg.Name); return 0 })
}

//export TRITONBACKEND_ModelVersion
func TRITONBACKEND_ModelVersion(h, version C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { put(version, uint64(m.cfg.Version)); return 0 })
}

//export TRITONBACKEND_ModelRepository
func TRITONBACKEND_ModelRepository(h, kind, location C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t {
		put[C.int](kind, 0)
		text(location, &m.directory, m.cfg.Directory)
		return 0
	})
}

// supported reports whether the form of a configuration is known.
func supported(version C.uint32_t) C.uintptr_t {
	if version != 1 {
		return errorf(backend.InvalidArg, "model configuration version %d not supported, supported versions are: 1", version)
	}
	return 0
}

//export TRITONBACKEND_ModelConfig
func TRITONBACKEND_ModelConfig(h C.uintptr_t, version C.uint32_t, config C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t {
		if err := supported(version); err != 0 {
			return err
		}
		m.mu.Lock()
		now := m.config
		m.mu.Unlock()
		return message(config, now)
	})
}

//export TRITONBACKEND_ModelAutoCompleteConfig
func TRITONBACKEND_ModelAutoCompleteConfig(h, may C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { put(may, m.may); return 0 })
}

//export TRITONBACKEND_ModelSetConfig
func TRITONBACKEND_ModelSetConfig(h C.uintptr_t, version C.uint32_t, config C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t {
		if err := supported(version); err != 0 {
			return err
		}
		now, ok := object.MessageText(handle.Handle(config))
		if !ok {
			return stale("the message")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		merged, err := draft.ParseJSON([]byte(m.config), m.cfg.Name)
		if err == nil {
			err = merged.Merge([]byte(now))
		}
		if err != nil {
			return result(err)
		}
		m.config, m.changed = string(merged.JSON()), true
		return 0
	})
}

//export TRITONBACKEND_ModelServer
func TRITONBACKEND_ModelServer(h, server C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { put(server, m.server); return 0 })
}

//export TRITONBACKEND_ModelBackend
func TRITONBACKEND_ModelBackend(h, b C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { put(b, m.library.handle); return 0 })
}

//export TRITONBACKEND_ModelState
func TRITONBACKEND_ModelState(h, state C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { put(state, m.state); return 0 })
}

//export TRITONBACKEND_ModelSetState
func TRITONBACKEND_ModelSetState(h, state C.uintptr_t) C.uintptr_t {
	return modelOf(h, func(m *model) C.uintptr_t { m.state = uintptr(state); return 0 })
}

// keeps returns the states that a sequence of the model has, by the names of their
// outputs, and which of them are no outputs for clients.
func (m *model) keeps() (states, hidden []string) {
	var c struct {
		Output []struct {
			Name string `json:"name"`
		} `json:"output"`
		Sequence struct {
			State []struct {
				Output string `json:"output_name"`
			} `json:"state"`
		} `json:"sequence_batching"`
	}
	m.mu.Lock()
	_ = json.Unmarshal([]byte(m.config), &c) // it is the server's own, or says nothing of states
	m.mu.Unlock()
	for _, s := range c.Sequence.State {
		states = append(states, s.Output)
		if !slices.ContainsFunc(c.Output, func(o struct {
			Name string `json:"name"`
		},
		) bool {
			return o.Name == s.Output
		}) {
			hidden = append(hidden, s.Output)
		}
	}
	return states, hidden
}
