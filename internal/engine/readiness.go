package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
)

// Leave makes the server not ready while it goes on serving, so that balancers
// turn away before Close refuses requests. Live stays true.
func (e *Engine) Leave() { e.leaving.Store(true) }

// Part has front ends ask clients with each reply to take a new connection. None is
// closed before: a request may be coming on it.
func (e *Engine) Part() { e.parting.Store(true) }

// Parting reports whether clients are to take new connections.
func (e *Engine) Parting() bool { return e.parting.Load() }

func errLeaving() *backend.Error {
	return backend.Errorf(backend.Unavailable, "the server is about to stop")
}

// SetFault makes the server not ready for a reason of one of its parts, such as
// a listener that answers no more; a nil reason takes that back.
func (e *Engine) SetFault(part string, reason error) { e.faults.set(part, reason) }

// faults are the parts of the server that do not work at present.
type faults struct {
	mu sync.Mutex
	by map[string]error
}

func (f *faults) set(part string, reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reason == nil {
		delete(f.by, part)
		return
	}
	if f.by == nil {
		f.by = map[string]error{}
	}
	f.by[part] = reason
}

// first returns a fault, always the same of several, or nil.
func (f *faults) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range slices.Sorted(maps.Keys(f.by)) {
		return backend.Errorf(backend.Unavailable, "%s: %v", part, f.by[part])
	}
	return nil
}

// Readiness is what the server and its models say of themselves.
type Readiness struct {
	// Err is what Ready returns.
	Err    error
	State  string // the peer's word: "INITIALIZING", "READY", "EXITING" or "FAILED"
	Models []ModelReadiness
}

// ModelReadiness is one version of a model, or with version 0 a model without any.
type ModelReadiness struct {
	Name    string
	Version int64
	// State is that of the repository index.
	State string
	Ready bool
	// Reason says why the version is not ready, or what is wrong with one that is.
	Reason string
}

// Readiness returns what Ready looks at. Models are asked at the same time,
// since one that asks its worker may take seconds.
func (e *Engine) Readiness() Readiness {
	versions := e.life.Versions("")
	r := Readiness{Err: e.Ready(), State: e.State().String(), Models: make([]ModelReadiness, len(versions))}
	var wg sync.WaitGroup
	for i, v := range versions {
		one := &r.Models[i]
		*one = ModelReadiness{Name: v.Name, Version: v.Version, State: v.State.String(), Reason: v.Reason}
		if v.Model == nil || v.State != lifecycle.Ready {
			continue
		}
		wg.Go(func() {
			if gone, err := e.life.Ready(v.Key, v.Version, v.Model); err != nil && !gone {
				one.Reason = err.Error()
				return
			}
			one.Ready, one.Reason = true, v.Model.Trouble()
		})
	}
	wg.Wait()
	return r
}
