package repository

import (
	"maps"
	"slices"

	"github.com/nesoserve/neso/internal/repository/source"
)

// Bound returns the snapshot of a model that a running program serves: there is
// no directory. generations tells apart the bindings that a version has had;
// config, when not empty, is JSON that replaces what was bound.
func Bound(model, config string, generations map[int64]uint64) *Snapshot {
	s := &Snapshot{Name: model, stamps: make(map[int64]source.Stamp, len(generations))}
	s.refs.Store(1)
	if config != "" {
		s.Config = []byte(config)
	}
	for v, g := range generations {
		s.stamps[v] = source.Stamp(g)
	}
	s.Versions = slices.Sorted(maps.Keys(generations))
	s.bound = true
	return s
}

// IsBound reports whether a program serves the model.
func (s *Snapshot) IsBound() bool { return s.bound }
