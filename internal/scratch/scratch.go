package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockName is the file in each directory that its process keeps locked.
const lockName = ".lock"

// attempts bounds how often somebody else's sweep may get between the making
// of a directory and its lock.
const attempts = 10

// Dir is a private directory of this process.
type Dir struct {
	// Path is absolute.
	Path string
	lock *os.File
}

// Make makes a directory in the system's place for temporary ones, readable
// for this user only, whose name begins with prefix. Before that it removes
// those with the same prefix whose processes have ended.
func Make(prefix string) (*Dir, error) { return MakeIn(os.TempDir(), prefix) }

// MakeIn is Make in another place.
func MakeIn(parent, prefix string) (*Dir, error) {
	sweep(parent, prefix)
	return newIn(parent, prefix)
}

// New is Make for who cannot wait for the removing, which takes milliseconds
// where there are thousands of directories, and calls [Sweep] later.
func New(prefix string) (*Dir, error) { return newIn(os.TempDir(), prefix) }

// Sweep removes what [Make] with this prefix would remove.
func Sweep(prefix string) { sweep(os.TempDir(), prefix) }

func newIn(parent, prefix string) (*Dir, error) {
	for range attempts {
		path, err := os.MkdirTemp(parent, prefix) // 0700
		if err != nil {
			if parent == os.TempDir() {
				err = fmt.Errorf("%w (temporary files need a directory that can be written, the one of TMPDIR)", err)
			}
			return nil, err
		}
		d := &Dir{Path: path}
		d.lock, err = os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			continue // swept away
		}
		if err == nil && (!lock(d.lock) || !d.there()) { // about to be swept away, or just now
			_ = d.lock.Close()
			continue
		}
		if err != nil {
			return nil, errors.Join(err, d.Remove())
		}
		return d, nil
	}
	return nil, fmt.Errorf("directories in %s disappear as soon as they are made", parent)
}

// there reports whether the locked file is the one in the directory.
func (d *Dir) there() bool {
	mine, err := d.lock.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(d.lock.Name())
	return err == nil && os.SameFile(mine, found)
}

// Remove removes the directory with all that is in it.
func (d *Dir) Remove() error {
	if !removesOpen && d.lock != nil {
		_ = d.lock.Close()
	}
	err := os.RemoveAll(d.Path)
	// A process that was told to end may put one more file into it, Python its
	// byte code.
	for range 100 {
		if !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
		err = os.RemoveAll(d.Path)
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
	return err
}

// sweep removes what ended processes have left. What cannot be told to be such
// a directory stays.
func sweep(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		if info, err := os.Lstat(path); err != nil || !private(info) {
			continue
		}
		file, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lock(file) {
			_ = os.RemoveAll(path) // the next one tries again
		}
		_ = file.Close()
	}
}
