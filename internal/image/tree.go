package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MaxFiles is how many files a tree may have.
const MaxFiles = 1 << 20

// Tree is what a layer holds: files by their path in the image, with slashes and
// without the first one. Owner, group and time of a file are not kept: every file
// belongs to root, so that the server cannot change it.
type Tree struct {
	entries map[string]entry
}

// entry is a file, a directory or a link.
type entry struct {
	mode    fs.FileMode // permissions, fs.ModeDir and fs.ModeSymlink
	link    string      // what a link points to
	content []byte
	source  string // the file on this machine, "" if content is the file
	size    int64
}

// NewTree returns a tree without files.
func NewTree() *Tree { return &Tree{entries: map[string]entry{}} }

// Dir adds a directory. The tree adds those above an entry by itself, with mode 0755.
func (t *Tree) Dir(name string, mode fs.FileMode) error {
	return t.add(name, entry{mode: mode.Perm() | mode&fs.ModeSticky | fs.ModeDir})
}

// File adds a file with the content given.
func (t *Tree) File(name string, mode fs.FileMode, content []byte) error {
	return t.add(name, entry{mode: mode.Perm(), content: content, size: int64(len(content))})
}

// Copy adds a file of this machine. It is read when the layer is written, and must not
// change until then.
func (t *Tree) Copy(name, source string, mode fs.FileMode) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: expected a file, it is %s", source, info.Mode().Type())
	}
	return t.add(name, entry{mode: mode.Perm(), source: source, size: info.Size()})
}

// Link adds a symbolic link. Its target is looked up in the image.
func (t *Tree) Link(name, target string) error {
	if target == "" {
		return fmt.Errorf("%s: expected the target of the link, got none", name)
	}
	return t.add(name, entry{mode: fs.ModeSymlink | 0o777, link: target})
}

// CopyDir adds what lies in a directory of this machine, below the path given. Files
// keep whether they may be executed and nothing else of their mode. A link that leads
// out of the directory, which would have no target in the image, a socket, a pipe or a
// device is an error. skip says what to leave out, by the path in the directory.
func (t *Tree) CopyDir(name, source string, skip func(name string, d fs.DirEntry) bool) error {
	return filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if rel != "." && skip != nil && skip(rel, d) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		at := path.Join(name, rel)
		switch kind := d.Type(); {
		case d.IsDir():
			if rel == "." && !fs.ValidPath(at) {
				return nil
			}
			return t.Dir(at, 0o755)
		case kind == fs.ModeSymlink:
			target, err := inner(source, file)
			if err != nil {
				return err
			}
			return t.Link(at, target)
		case kind.IsRegular():
			info, err := d.Info()
			if err != nil {
				return err
			}
			mode := fs.FileMode(0o644)
			if info.Mode()&0o111 != 0 {
				mode = 0o755
			}
			return t.Copy(at, file, mode)
		default:
			return fmt.Errorf("%s: expected files, directories and links, it is %s", file, kind)
		}
	})
}

// inner returns the target of a link, which must lie in the directory.
func inner(dir, link string) (string, error) {
	target, err := os.Readlink(link)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(dir, filepath.Join(filepath.Dir(link), target))
	if filepath.IsAbs(target) || err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s: the link leads to %q, outside of %s: it would lead nowhere in the image", link, target, dir)
	}
	return filepath.ToSlash(target), nil
}

// add puts an entry in, with the directories above it. What is there already is
// replaced, unless one of both is a directory and the other is not.
func (t *Tree) add(name string, e entry) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\\") {
		return fmt.Errorf("%q is no path in an image: expected one like usr/bin/neso", name)
	}
	if len(t.entries) >= MaxFiles {
		return fmt.Errorf("%s: more than %d files", name, MaxFiles)
	}
	if old, ok := t.entries[name]; ok && old.mode.IsDir() != e.mode.IsDir() {
		return fmt.Errorf("%s: is a directory and a file", name)
	}
	t.entries[name] = e
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		old, ok := t.entries[dir]
		if ok && !old.mode.IsDir() {
			return fmt.Errorf("%s: %s is no directory", name, dir)
		}
		if ok {
			break
		}
		t.entries[dir] = entry{mode: fs.ModeDir | 0o755}
	}
	return nil
}

// names returns the paths in the order in which a layer holds them.
func (t *Tree) names() []string {
	names := make([]string, 0, len(t.entries))
	for name := range t.entries {
		names = append(names, name)
	}
	slices.Sort(names) // a directory stands before what is in it
	return names
}

// errChanged is what a file says that has not the size it had.
var errChanged = errors.New("the file has changed while the image was made")

// open returns the content of a file.
func (e *entry) open() (io.ReadCloser, error) {
	if e.source == "" {
		return io.NopCloser(bytes.NewReader(e.content)), nil
	}
	return os.Open(e.source)
}
