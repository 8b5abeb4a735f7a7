package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/recent"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/residency"
	"github.com/nesoserve/neso/internal/stats"
)

// Live returns nil, or why the server is not live (Unavailable "Server exiting"
// once shutting down).
func (e *Engine) Live() error {
	switch e.State() {
	case Ready:
		return nil
	case Exiting:
		return backend.Errorf(backend.Unavailable, "Server exiting")
	case Initializing:
		return backend.Errorf(backend.Unavailable, "Server not ready: %s", e.progress())
	default:
		return backend.Errorf(backend.InvalidArg, "server is at %s state", e.State())
	}
}

// Ready returns nil, or why the server is not ready.
func (e *Engine) Ready() error {
	if err := e.Live(); err != nil {
		return err
	}
	if e.leaving.Load() {
		return errLeaving()
	}
	if err := e.faults.first(); err != nil {
		return err
	}
	for _, a := range e.repo.Away() {
		if !a.Stands && e.loadsAll() {
			return backend.Errorf(backend.InvalidArg, "model repository %s has not been read yet: %v", a.Path, a.Err)
		}
	}
	if !e.o.StrictReadiness || e.demand != nil { // what is out comes when it is wanted
		return nil
	}
	if err := e.life.AllReady(); err != nil {
		return backend.Errorf(backend.InvalidArg, "%v", err)
	}
	return nil
}

// ModelReady returns nil, or why the version (-1: the latest) is not ready.
func (e *Engine) ModelReady(name string, version int64) error {
	if e.State() != Ready {
		return notReady()
	}
	return e.modelReady(name, version)
}

func (e *Engine) modelReady(name string, version int64) error {
	m := e.life.Find(name, version)
	gone, err := m == nil, error(nil)
	if !gone {
		gone, err = e.life.Ready(name, version, m)
	}
	if gone {
		err = e.life.Explain(name, version)
	}
	if err != nil {
		return backend.Errorf(backend.InvalidArg, "Model version not ready: %v", err)
	}
	return nil
}

// Model returns a ready version without pinning it, for metadata and configuration,
// with the ready versions in ascending order, or for a named one its number.
func (e *Engine) Model(name string, version int64) (*modelconfig.Config, []int64, error) {
	if s := e.State(); s != Ready {
		return nil, nil, notReady()
	}
	versions := e.life.Lookup(name)
	m := e.life.Find(name, version)
	if m == nil {
		return nil, nil, e.life.Explain(name, version)
	}
	if version >= 0 {
		return m.Config(), []int64{version}, nil
	}
	numbers := make([]int64, len(versions))
	for i, v := range versions {
		numbers[i] = v.Version()
	}
	return m.Config(), numbers, nil
}

// Describe is Model, which where models are loaded on demand also describes one that is
// not in; it may be loaded for that, at most until ctx ends.
func (e *Engine) Describe(ctx context.Context, name string, version int64) (*modelconfig.Config, []int64, error) {
	cfg, versions, err := e.Model(name, version)
	if err != nil && e.demand != nil && e.State() == Ready {
		return e.demand.Describe(ctx, name, version)
	}
	return cfg, versions, err
}

// VersionStats is the statistics of one ready version.
type VersionStats struct {
	Name string
	// Namespace is the model's repository with namespacing, else empty.
	Namespace string
	Version   int64
	Stats     *stats.Version
	Config    *modelconfig.Config
	// LoadTime is how long the last load took, warm-up included.
	LoadTime time.Duration
	// Instances is how they are.
	Instances instance.Health
	// Memory returns what memory the version has; see model.Model.Memory.
	Memory func() []backend.MemoryUsage
}

// Numbers returns what all versions have counted since the server began, those
// included that are not loaded any more; Statistics those of the loaded ones since
// they were loaded.
func (e *Engine) Numbers() []stats.Page { return e.life.Numbers() }

// Statistics returns the numbers of one model (version -1: all its ready
// versions), or of all ready models for the empty name.
func (e *Engine) Statistics(name string, version int64) ([]VersionStats, error) {
	var found []VersionStats
	for _, v := range e.life.Versions(name) {
		if v.Model != nil && (version == -1 || v.Version == version) {
			found = append(found, VersionStats{
				Name: v.Name, Namespace: v.Namespace, Version: v.Version, Stats: v.Model.Stats(),
				Config: v.Model.Config(), LoadTime: v.LoadTime, Instances: v.Model.Health(), Memory: v.Model.Memory,
			})
		}
	}
	switch {
	case name == "" || len(found) > 0:
		return found, nil
	case version == -1 || len(e.life.Lookup(name)) == 0:
		return nil, backend.Errorf(backend.InvalidArg, "requested model '%s' is not available", name)
	default:
		return nil, backend.Errorf(backend.InvalidArg, "requested model version is not available for model '%s'", name)
	}
}

// Explain says what the batcher of a model with a latency objective has learnt, and
// why its last batches were closed, as JSON.
func (e *Engine) Explain(name string, version int64) ([]byte, error) {
	if s := e.State(); s != Ready {
		return nil, notReady()
	}
	m := e.life.Find(name, version)
	if m == nil {
		return nil, e.life.Explain(name, version)
	}
	what, err := m.Explain()
	if err != nil {
		return nil, err
	}
	return json.Marshal(what)
}

// IndexEntry is one line of the repository index.
type IndexEntry struct {
	Name, Version, State, Reason string
}

// indexTimeout bounds how long the index waits for repositories; then it shows
// what is known.
const indexTimeout = 5 * time.Second

// Index lists the models of all repositories; with ready only the ready ones.
// A model that was never loaded has a name only.
func (e *Engine) Index(ready bool) ([]IndexEntry, error) {
	if index := e.failedIndex.Load(); index != nil && !ready {
		return *index, nil
	}
	known := map[string][]lifecycle.Version{}
	for _, v := range e.life.Versions("") {
		known[v.Key] = append(known[v.Key], v)
	}
	index := []IndexEntry{}
	serving := map[string]bool{}
	for _, name := range e.life.Serving() {
		serving[name] = true
	}
	if !ready {
		ctx, cancel := context.WithTimeout(context.Background(), indexTimeout)
		defer cancel()
		stored, err := e.repo.List(ctx)
		if err != nil && len(stored) == 0 && len(known) == 0 {
			return nil, err
		}
		if err == nil {
			e.forget(known, stored)
		}
		for _, s := range stored {
			switch {
			case s.Duplicate && !serving[s.Name]:
				delete(known, s.Name)
				index = append(index, IndexEntry{
					Name: s.Name, State: lifecycle.Unavailable.String(),
					Reason: "model appears in two or more repositories",
				})
			case known[s.Name] == nil:
				_, name := e.repo.Split(s.Name)
				entry := IndexEntry{Name: name}
				if e.demand != nil {
					_, entry.Reason = e.residence(name, lifecycle.Unavailable.String(), "")
				}
				index = append(index, entry)
			}
		}
	}
	for _, versions := range known {
		for _, v := range versions {
			if ready && v.State != lifecycle.Ready {
				continue
			}
			entry := IndexEntry{Name: v.Name}
			entry.State, entry.Reason = e.standing(&v)
			if v.Version > 0 {
				entry.Version = strconv.FormatInt(v.Version, 10)
			}
			index = append(index, entry)
		}
	}
	slices.SortFunc(index, func(a, b IndexEntry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(len(a.Version), len(b.Version)), cmp.Compare(a.Version, b.Version))
	})
	return index, nil
}

// forget takes the models out of what is known that no repository has any more, as the
// peer does, but for those that serve all the same although nobody took their repository
// back, and those that programs have bound.
func (e *Engine) forget(known map[string][]lifecycle.Version, stored []repository.Entry) {
	there := map[string]bool{}
	for _, s := range stored {
		there[s.Name] = true
	}
	e.unlisted.mu.Lock()
	defer e.unlisted.mu.Unlock()
	maps.DeleteFunc(e.unlisted.names, func(name string, _ bool) bool { return there[name] }) // it is back
	maps.DeleteFunc(known, func(name string, versions []lifecycle.Version) bool {
		stays := func(v lifecycle.Version) bool {
			return v.Bound || v.State != lifecycle.Unavailable && !e.unlisted.names[name]
		}
		return !there[name] && !slices.ContainsFunc(versions, stays)
	})
}

// standing is the state of a version as the index has it, and the reason for it.
func (e *Engine) standing(v *lifecycle.Version) (state, reason string) {
	if v.State == lifecycle.Ready && v.Model != nil {
		if gone, err := e.life.Ready(v.Key, v.Version, v.Model); err != nil && !gone { // loaded, but its worker keeps dying, say
			return lifecycle.Unavailable.String(), err.Error()
		}
	}
	if e.demand != nil {
		return e.residence(v.Key, v.State.String(), v.Reason)
	}
	return v.State.String(), v.Reason
}

// residence is the state and the reason of a model where models are loaded on demand:
// also why it is in, or is not.
func (e *Engine) residence(name, state, reason string) (string, string) {
	s := e.demand.Standing(name)
	why := s.Why.String()
	switch {
	case state == lifecycle.Unavailable.String() && s.State == residency.Out && s.Waiting > 0:
		return state, fmt.Sprintf("%s; %d requests wait for it to be loaded", why, s.Waiting)
	case state == lifecycle.Ready.String() && reason == "" && s.State == residency.In && s.Traits.Pin:
		return state, why + ", pinned"
	case state == lifecycle.Ready.String() && reason == "" && s.State == residency.In,
		state == lifecycle.Unavailable.String() && (reason == "" || reason == lifecycle.ReasonUnloaded) && s.Failure == nil,
		state == lifecycle.Unloading.String() && reason == "":
		return state, why
	case state == lifecycle.Unavailable.String() && s.Failure != nil:
		return state, why + ": " + strings.TrimSpace(s.Failure.Error())
	}
	return state, reason
}

// Standing is a version that the server has loaded, or has tried to.
type Standing struct {
	lifecycle.Version
	// State and Reason are those of the index.
	State, Reason string
}

// Standings returns how the versions of a model are, or for the empty name those of
// all models, by name and version. It asks no repository.
func (e *Engine) Standings(name string) []Standing {
	versions := e.life.Versions(name)
	all := make([]Standing, len(versions))
	for i := range versions {
		all[i].Version = versions[i]
		all[i].State, all[i].Reason = e.standing(&versions[i])
	}
	return all
}

// Given returns the configuration file of a version as it lies in its directory, and
// the file's name; nil where there is none.
func (e *Engine) Given(m *model.Model) (file string, text []byte) { return m.Given(e.o.ConfigName) }

// ControlMode is that of the options.
func (e *Engine) ControlMode() string { return e.o.ControlMode }

// Texts counts what models have written.
func (e *Engine) Texts() *generation.Book { return &e.texts }

// Recent keeps the last requests that failed, and the slowest.
func (e *Engine) Recent() *recent.Book { return e.recent }

// Labels returns the class labels of an output of a ready version, or nil.
func (e *Engine) Labels(name string, version int64, output string) []string {
	m := e.life.PinFor("", name, version)
	if m == nil {
		return nil
	}
	defer m.Unpin()
	return m.Labels(output)
}

// Poll looks at the repositories now and takes what has changed, in control mode
// "poll" only.
func (e *Engine) Poll(ctx context.Context) error {
	switch {
	case e.State() != Ready:
		return notReady()
	case e.poller == nil:
		return backend.Errorf(backend.Unavailable, "polling is disabled")
	}
	return e.poller.Now(ctx)
}
