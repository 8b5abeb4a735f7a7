// Package overlay owns repositories that look like the user's but for some
// configurations, and what becomes of the best one: a patch, and the user's file, of
// which the old one is kept. Open overlay.go first, then diff.go.
package overlay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/wholefile"
)

// Filename is that of a model's configuration.
const Filename = "config.pbtxt"

// Find returns the directory of a model in the first repository that has it.
func Find(repositories []string, model string) (string, error) {
	if model == "" || model == "." || model == ".." || filepath.Base(model) != model {
		return "", fmt.Errorf("%q is no name of a model", model)
	}
	for _, r := range repositories {
		dir := filepath.Join(r, model)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("there is no model %q in the model repository %s", model, strings.Join(repositories, ", "))
}

// Config reads the configuration of a model in its directory; none is an empty one.
func Config(directory string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(directory, Filename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Make makes a repository in an empty directory: every model of the repositories, by
// links, with the changes of those that changes names.
func Make(directory string, repositories []string, changes map[string][]edit.Change) error {
	seen := map[string]bool{}
	for _, r := range repositories {
		entries, err := os.ReadDir(r)
		if err != nil {
			return fmt.Errorf("the model repository cannot be read: %w", err)
		}
		for _, e := range entries {
			name := e.Name()
			from, err := filepath.Abs(filepath.Join(r, name))
			if err != nil {
				return err
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			if to := filepath.Join(directory, name); len(changes[name]) == 0 {
				err = link(from, to)
			} else {
				err = changed(from, to, changes[name])
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// changed makes a model's directory whose configuration is another one.
func changed(from, to string, changes []edit.Change) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == Filename {
			continue
		}
		if err := within(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	text, err := Edited(from, changes)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, Filename), text, 0o644)
}

// Edited returns the configuration of a model with changes.
func Edited(directory string, changes []edit.Change) ([]byte, error) {
	text, err := Config(directory)
	if err != nil {
		return nil, err
	}
	return edit.Text(text, filepath.Join(filepath.Base(directory), Filename), changes)
}

// link links a directory, and copies it where there are no links.
func link(from, to string) error {
	if runtime.GOOS != "windows" {
		return os.Symlink(from, to)
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	return copyFile(from, to)
}

// mostCopied bounds the files that are copied, in bytes.
const mostCopied = 64 << 20

// within puts what lies in a model's directory into another one. Files are there
// themselves: a server refuses labels and the like that a link leads to.
func within(from, to string) error {
	info, err := os.Stat(from)
	switch {
	case err != nil: // a link that leads nowhere
		return link(from, to)
	case !info.Mode().IsRegular():
		return link(from, to)
	case os.Link(from, to) == nil:
		return nil
	case info.Size() > mostCopied:
		return link(from, to)
	}
	return copyFile(from, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// mostBackups bounds the numbers of old configurations.
const mostBackups = 10000

// Apply writes the configuration of a model. The old one stays as config.pbtxt.N.bak,
// whose name is returned, "" if there was none. A file that is not as it was when it was
// measured is left alone, and so is one for whose successor there is no room.
func Apply(directory string, was, text []byte) (backup string, err error) {
	now, err := Config(directory)
	if err != nil {
		return "", err
	}
	if string(now) == string(text) {
		return "", nil
	}
	path := filepath.Join(directory, Filename)
	if string(now) != string(was) {
		return "", fmt.Errorf("%s has changed since it was measured: it is left as it is", path)
	}
	if now != nil {
		if backup, err = keep(path, now); err != nil {
			return "", fmt.Errorf("%s is left as it is: the old one cannot be kept: %w", path, err)
		}
	}
	if err := wholefile.Bytes(path, text); err != nil {
		if backup != "" {
			os.Remove(backup)
		}
		return "", fmt.Errorf("%s is left as it is: %w", path, err)
	}
	return backup, nil
}

func keep(path string, text []byte) (string, error) {
	for n := 1; n < mostBackups; n++ {
		name := fmt.Sprintf("%s.%d.bak", path, n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(text)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			os.Remove(name) // a half is none
			return "", err
		}
		return name, nil
	}
	return "", fmt.Errorf("%s has %d backups: remove some", path, mostBackups)
}
