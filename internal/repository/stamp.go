package repository

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/rollout"
)

// stamp takes the stamps of each version and of everything else in the model's
// directory.
func (s *Snapshot) stamp() error {
	s.stamps = make(map[int64]source.Stamp, len(s.directories))
	versionOf := make(map[string]bool, len(s.directories))
	for v, dir := range s.directories {
		versionOf[dir] = true
		st, err := source.StampTree(dir, nil)
		if err != nil {
			return backend.Errorf(backend.Internal, "failed to stat file %s", dir)
		}
		s.stamps[v] = st
	}
	var err error
	rules := filepath.Join(s.Directory, rollout.File)
	s.common, err = source.StampTree(s.Directory, func(path string) bool { return versionOf[path] || path == rules })
	if err != nil {
		return backend.Errorf(backend.Internal, "failed to stat file %s", s.Directory)
	}
	s.beside, err = source.StampTree(s.Directory, func(path string) bool {
		return versionOf[path] || path == rules ||
			path == filepath.Join(s.Directory, "config.pbtxt") || path == filepath.Join(s.Directory, "configs")
	})
	if err != nil {
		return backend.Errorf(backend.Internal, "failed to stat file %s", s.Directory)
	}
	return nil
}

// SameFiles reports whether a version's files, and what is used by all versions,
// are as they were in old, whatever has become of the configuration.
func (s *Snapshot) SameFiles(old *Snapshot, version int64) bool {
	return !s.Overridden && !old.Overridden && s.origin == old.origin && s.beside == old.beside && s.SameVersion(old, version)
}

// SameConfig reports whether the configuration and everything beside the
// versions is as it was in old. When it is not, all versions have changed.
// What comes with a request always counts as a change: there is nothing on
// storage to compare it with, and as little with a configuration that storage has no more.
func (s *Snapshot) SameConfig(old *Snapshot) bool {
	return !s.FromRequest() && !old.FromRequest() && !s.kept && !old.kept && s.origin == old.origin && s.common == old.common &&
		s.relative(s.ConfigPath) == old.relative(old.ConfigPath) && bytes.Equal(s.Config, old.Config)
}

// Same reports whether a model is what it was in old, all versions included.
func (s *Snapshot) Same(old *Snapshot) bool {
	changed := func(version int64) bool { return !s.SameVersion(old, version) }
	return s.SameConfig(old) && slices.Equal(s.Versions, old.Versions) && !slices.ContainsFunc(s.Versions, changed) &&
		bytes.Equal(s.Rollout, old.Rollout)
}

// FromRequest reports whether the configuration or the files came with a request: the
// repository has another model than this.
func (s *Snapshot) FromRequest() bool { return s.Overridden || s.Config != nil && s.ConfigPath == "" }

// SameVersion reports whether the files of a version are as they were in old.
func (s *Snapshot) SameVersion(old *Snapshot, version int64) bool {
	a, ok := s.stamps[version]
	b, had := old.stamps[version]
	return ok && had && a == b && s.relative(s.directories[version]) == old.relative(old.directories[version])
}

// Size returns how many bytes the files of versions have.
func (s *Snapshot) Size(versions []int64) (bytes int64) {
	for _, v := range versions {
		if dir := s.directories[v]; dir != "" {
			bytes += source.SizeTree(dir)
		}
	}
	return bytes
}

// relative returns a path below the model's directory: copies of what one place
// holds lie in directories of their own.
func (s *Snapshot) relative(path string) string {
	rel, err := filepath.Rel(s.Directory, path)
	if err != nil || path == "" {
		return path
	}
	return rel
}
