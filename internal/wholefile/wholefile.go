// Package wholefile writes files whole or not at all: on a disk that is full, or in a
// process that ends half-way, what was there before stays.
package wholefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Bytes writes a file that consists of text.
func Bytes(path string, text []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Write has write make the content of a file, which takes the place of what was there
// once it is on the disk. The file behind a link is written, and keeps its permissions.
// What is no ordinary file, such as a device or a pipe, is written directly; so is a file
// whose directory takes no other one.
func Write(path string, write func(io.Writer) error) error {
	if err := replace(path, write); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, plain(err))
	}
	return nil
}

// plain is an error without the name of a file that the user does not know.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

func replace(path string, write func(io.Writer) error) error {
	at, mode := path, fs.FileMode(0)
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil { // a link to what is not there yet
			return directly(path, write)
		}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return directly(path, write)
	default:
		mode = info.Mode().Perm()
		if at, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	name := filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+"-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrPermission) && mode != 0 {
		return directly(path, write)
	}
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(name, at)
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}

func directly(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
