package source

import (
	"encoding/binary"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Stamp sums up names, sizes and modification times of a tree of files: equal
// stamps mean that nothing has changed. It is only ever compared within one
// process.
type Stamp uint64

var stampSeed = maphash.MakeSeed()

// maxFiles bounds how many files of a model are looked at.
const maxFiles = 1 << 20

// StampTree takes the stamp of all below dir but the directories and files that
// skip names; skip may be nil.
func StampTree(dir string, skip func(path string) bool) (Stamp, error) {
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
	return Stamp(h.Sum64()), err
}

// SizeTree returns how many bytes the files below dir have. What cannot be read counts
// nothing.
func SizeTree(dir string) (bytes int64) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0
	}
	files := 0
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if files++; files > maxFiles {
			return fs.SkipAll
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
