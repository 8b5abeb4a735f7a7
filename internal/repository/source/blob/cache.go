package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// cache is the directory that downloads go to. Below it lie
//
//	objects/<model>/<key>        whole, checked files, by name, size and ETag
//	objects/<model>/<key>.part   files that are being downloaded
//	trees-<random>/<n>/<model>/  a model as it was fetched: links to objects
//
// Several servers can share it.
type cache struct {
	dir   string
	trees string
	held  *os.File // locked as long as trees is in use
	own   bool     // dir goes with the cache
	next  atomic.Int64
}

const treesPrefix = "trees-"

// openCache makes the cache of the repository uri below dir, which stays, or
// for "" in a temporary directory below temp, which goes at close.
func openCache(dir, temp, uri string) (*cache, error) {
	c := &cache{}
	if dir == "" {
		top, err := os.MkdirTemp(temp, "neso-repository-")
		if err != nil {
			return nil, err
		}
		c.dir, c.own = top, true
	} else {
		sum := sha256.Sum256([]byte(uri))
		c.dir = filepath.Join(dir, hex.EncodeToString(sum[:8]))
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return nil, err
		}
		c.sweep()
	}
	var err error
	if c.trees, err = os.MkdirTemp(c.dir, treesPrefix); err == nil {
		c.held, err = os.OpenFile(filepath.Join(c.trees, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		_ = c.close() // the first error says more
		return nil, err
	}
	lock(c.held)
	return c, nil
}

// sweep removes the trees of servers that did not end well.
func (c *cache) sweep() {
	if !sweeps {
		return
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), treesPrefix) {
			continue
		}
		path := filepath.Join(c.dir, e.Name())
		f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // just being made, or of another user
		}
		if lock(f) {
			_ = os.RemoveAll(path) // what cannot be removed stays
		}
		f.Close()
	}
}

func (c *cache) close() error {
	var errs []error
	if c.held != nil { // first: an open file cannot be removed on every system
		errs = append(errs, c.held.Close())
		c.held = nil
	}
	if c.trees != "" {
		errs = append(errs, os.RemoveAll(c.trees))
	}
	if c.own {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// key names an object's content.
func key(o object) string {
	sum := sha256.Sum256([]byte(o.key + "\x00" + o.etag + "\x00" + strconv.FormatInt(o.size, 10)))
	return hex.EncodeToString(sum[:16])
}

// objects makes and returns the directory of a model's objects.
func (c *cache) objects(model string) (string, error) {
	dir := filepath.Join(c.dir, "objects", model)
	return dir, os.MkdirAll(dir, 0o700)
}

// file is one file of a model.
type file struct {
	path string // below the model's directory, slash-separated; ends in a slash for a directory
	object
}

// tree links a model's files into a directory of its own.
func (c *cache) tree(model, objects string, files []file) (dir string, release func() error, err error) {
	top := filepath.Join(c.trees, strconv.FormatInt(c.next.Add(1), 10))
	remove := func() error { return os.RemoveAll(top) }
	dir = filepath.Join(top, model)
	defer func() {
		if err != nil {
			_ = remove() // the first error says more
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	for _, f := range files {
		path := filepath.FromSlash(strings.TrimSuffix(f.path, "/"))
		parent := filepath.Dir(path)
		if strings.HasSuffix(f.path, "/") {
			parent = path
		}
		if err := root.MkdirAll(parent, 0o700); err != nil {
			return "", nil, fmt.Errorf("%s: %w", f.key, err)
		}
		if parent == path {
			continue
		}
		if err := link(filepath.Join(objects, key(f.object)), filepath.Join(dir, path)); err != nil {
			return "", nil, fmt.Errorf("%s: %w", f.key, err)
		}
	}
	return dir, remove, nil
}

// link makes to a hard link of from, or a copy where hard links do not work.
func link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// prune removes the objects of a model that are not among files. Trees keep
// what they link to.
func prune(objects string, files []file) {
	keep := map[string]bool{}
	for _, f := range files {
		keep[key(f.object)] = true
	}
	entries, err := os.ReadDir(objects)
	if err != nil {
		return
	}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); !keep[name] {
			_ = os.Remove(filepath.Join(objects, e.Name())) // it costs space, no more
		}
	}
}
