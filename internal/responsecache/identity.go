package responsecache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ContentIdentity sums up a model version by what it is made of: its
// configuration, the files of its directory and those that all versions share.
// Servers that load the same content get the same identity, wherever it lies.
// Python's byte code, written on load, and other versions do not count.
func ContentIdentity(ctx context.Context, config []byte, directory, versionDirectory string) (id Identity, err error) {
	h := sha256.New()
	number := func(n int64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	number(int64(len(config)))
	h.Write(config)
	add := func(root string, skip func(d fs.DirEntry, top bool) bool) error {
		number(-1)                               // no length of a name: what follows is another tree
		root, err := filepath.EvalSymlinks(root) // WalkDir does not follow its root
		if err != nil {
			return err
		}
		return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return firstError(err, ctx.Err())
			}
			if d.IsDir() {
				if path != root && skip(d, filepath.Dir(path) == root) {
					return fs.SkipDir
				}
				return nil
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				return nil // a dangling link, a socket
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			number(int64(len(name)))
			h.Write([]byte(name))
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(h, f)
			number(n)
			return err
		})
	}
	byteCode := func(d fs.DirEntry) bool { return d.Name() == "__pycache__" }
	err = add(versionDirectory, func(d fs.DirEntry, _ bool) bool { return byteCode(d) })
	if err == nil && directory != "" {
		err = add(directory, func(d fs.DirEntry, top bool) bool {
			_, notNumber := strconv.ParseUint(d.Name(), 10, 63)
			return byteCode(d) || top && notNumber == nil
		})
	}
	h.Sum(id[:0])
	return id, err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
