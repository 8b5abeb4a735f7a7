package repository

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// stamp sums up names, sizes and modification times of a tree of files: equal
// stamps mean that nothing has changed. It is only ever compared within one
// process.
type stamp uint64

var stampSeed = maphash.MakeSeed()

// maxFiles bounds how many files of a model are looked at.
const maxFiles = 1 << 20

// stamp takes the stamps of each version and of everything else in the model's
// directory.
func (s *Snapshot) stamp() error {
	s.stamps = make(map[int64]stamp, len(s.directories))
	versionOf := make(map[string]bool, len(s.directories))
	for v, dir := range s.directories {
		versionOf[dir] = true
		st, err := stampTree(dir, nil)
		if err != nil {
			return backend.Errorf(backend.Internal, "failed to stat file %s", dir)
		}
		s.stamps[v] = st
	}
	var err error
	s.common, err = stampTree(s.Directory, func(path string) bool { return versionOf[path] })
	if err != nil {
		return backend.Errorf(backend.Internal, "failed to stat file %s", s.Directory)
	}
	return nil
}

func stampTree(dir string, skip func(path string) bool) (stamp, error) {
	var h maphash.Hash
	h.SetSeed(stampSeed)
	files := 0
	// A version may be a link to a directory; WalkDir does not follow its root.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		rel := strings.TrimPrefix(path, root)
		if skip != nil && skip(dir+rel) || d.IsDir() && d.Name() == "__pycache__" {
			// Python writes its cache on load, which must not look like a change.
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > maxFiles {
			return fs.SkipAll
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil // a dangling link, or a file removed meanwhile
		}
		h.WriteString(rel)
		var b [17]byte
		if !info.IsDir() { // a directory's own time changes with caches written into it
			binary.LittleEndian.PutUint64(b[:], uint64(info.Size()))
			binary.LittleEndian.PutUint64(b[8:], uint64(info.ModTime().UnixNano()))
			b[16] = 1
		}
		h.Write(b[:])
		return nil
	})
	return stamp(h.Sum64()), err
}

// SameConfig reports whether the configuration and everything beside the
// versions is as it was in old. When it is not, all versions have changed.
// What comes with a request always counts as a change: there is nothing on
// storage to compare it with.
func (s *Snapshot) SameConfig(old *Snapshot) bool {
	return !s.fromRequest() && !old.fromRequest() && s.Directory == old.Directory && s.common == old.common &&
		s.ConfigPath == old.ConfigPath && bytes.Equal(s.Config, old.Config)
}

func (s *Snapshot) fromRequest() bool { return s.Overridden || s.Config != nil && s.ConfigPath == "" }

// SameVersion reports whether the files of a version are as they were in old.
func (s *Snapshot) SameVersion(old *Snapshot, version int64) bool {
	a, ok := s.stamps[version]
	b, had := old.stamps[version]
	return ok && had && a == b && s.directories[version] == old.directories[version]
}
