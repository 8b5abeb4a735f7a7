//go:build cgo

package agent

// #include <stdint.h>
import "C"

import (
	"os"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/agents/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

const (
	kindAgent = handle.RepoAgentKinds + iota
	kindModel
)

var (
	agents = handle.NewTable[library](kindAgent)
	models = handle.NewTable[model](kindModel)
)

// The types of artifacts.
const (
	filesystem C.int = iota
	remoteFilesystem
)

// model is a TRITONREPOAGENT_AgentModel: one load of a model, up to its unload. The
// texts that an agent is given stay as long as it is.
type model struct {
	handle  handle.Handle
	library *library
	begun   *host.Begin
	names   []pair

	mu       sync.Mutex // agents may call from threads of their own
	state    uintptr
	action   backend.AgentAction
	acting   bool // LOAD has begun
	location string
	texts    map[string]uintptr // of locations, each as long as the model
	acquired string
}

// pair is a parameter in memory of C.
type pair struct{ name, value object.Text }

func newModel(l *library, b *host.Begin) *model {
	m := &model{
		library: l, begun: b, location: b.Location, names: make([]pair, len(b.Parameters)), texts: map[string]uintptr{},
	}
	m.handle = models.New(m)
	return m
}

func (m *model) begin(a backend.AgentAction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.action, m.acting = a, true
}

// moved returns where the agent wants the model to be, "" where it has not said so.
func (m *model) moved() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.location == m.begun.Location {
		return ""
	}
	return m.location
}

// end tells the library, and frees what it was given.
func (m *model) end() error {
	err := m.library.callModel(m.library.entries.modelFinalize, m)
	models.Take(m.handle)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.texts {
		object.FreeText(t)
	}
	for i := range m.names {
		m.names[i].name.Free()
		m.names[i].value.Free()
	}
	if m.acquired != "" {
		_ = os.RemoveAll(m.acquired) // the server removes what it lies in
	}
	return err
}

// textLocked puts a location that the agent keeps.
func (m *model) textLocked(to C.uintptr_t, s string) {
	at, ok := m.texts[s]
	if !ok {
		at = object.NewText(s)
		m.texts[s] = at
	}
	object.Set(uintptr(to), at)
}

// acquire returns the directory that the agent may fill.
func (m *model) acquireLocked() (string, error) {
	if m.acquired != "" {
		return m.acquired, nil
	}
	dir, err := os.MkdirTemp(m.begun.Scratch, "")
	if err != nil {
		return "", backend.Errorf(backend.Internal, "Failed to create a directory for the model: %v", err)
	}
	m.acquired = dir
	return dir, nil
}

func errorf(code backend.Code, format string, args ...any) C.uintptr_t {
	return C.uintptr_t(object.Errorf(code, format, args...))
}

func null(what string) C.uintptr_t { return C.uintptr_t(object.Null(what)) }

// agentOf calls f with the agent of a handle.
func agentOf(h C.uintptr_t, f func(l *library) C.uintptr_t) C.uintptr_t {
	l := agents.Get(handle.Handle(h))
	if l == nil {
		return C.uintptr_t(object.Stale("the repository agent"))
	}
	return f(l)
}

// modelOf calls f, under the lock of the model, with the model of a handle.
func modelOf(h C.uintptr_t, f func(m *model) C.uintptr_t) C.uintptr_t {
	m := models.Get(handle.Handle(h))
	if m == nil {
		return C.uintptr_t(object.Stale("the agent's model"))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return f(m)
}

// both calls f with the model of an agent and a model that belong together.
func both(a, h C.uintptr_t, f func(m *model) C.uintptr_t) C.uintptr_t {
	return agentOf(a, func(l *library) C.uintptr_t {
		return modelOf(h, func(m *model) C.uintptr_t {
			if m.library != l {
				return errorf(backend.InvalidArg, "the agent's model is another agent's")
			}
			return f(m)
		})
	})
}
