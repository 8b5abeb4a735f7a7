package python

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// environments turns EXECUTION_ENV_PATH into interpreters. Archives are
// unpacked once for each state of the file.
type environments struct {
	directory string // "": below the user's cache directory

	mu   sync.Mutex
	keys map[string]*sync.Mutex // one extraction of an archive at a time
}

// interpreter returns the interpreter of an environment: a conda-pack archive,
// the directory of an environment, or an interpreter itself.
func (e *environments) interpreter(path string) (interpreter, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return interpreter{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return interpreter{}, backend.Errorf(backend.NotFound, "the Python environment '%s' is not found: %v", path, err)
	}
	switch {
	case info.IsDir():
		return inDirectory(path)
	case isArchive(path) && !info.Mode().IsRegular():
		return interpreter{}, backend.Errorf(backend.InvalidArg, "the Python environment '%s' is a pipe, a socket or a device, not an archive",
			path)
	case isArchive(path):
		dir, err := e.extracted(path, info)
		if err != nil {
			return interpreter{}, err
		}
		return inDirectory(dir)
	case executable(path):
		return interpreter{path: path}, nil
	}
	return interpreter{}, backend.Errorf(backend.InvalidArg,
		"the Python environment '%s' is neither a directory nor a .tar.gz archive nor an interpreter", path)
}

func isArchive(path string) bool {
	return strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz")
}

// inDirectory returns the interpreter of a conda environment or a venv.
func inDirectory(dir string) (interpreter, error) {
	names := []string{"bin/python", "bin/python3"}
	if runtime.GOOS == "windows" {
		names = []string{"python.exe", "Scripts/python.exe"}
	}
	for _, name := range names {
		if path := filepath.Join(dir, filepath.FromSlash(name)); executable(path) {
			return interpreter{path: path, root: dir}, nil
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "activate")); err != nil {
		return interpreter{}, backend.Errorf(backend.Internal,
			"Path %s/bin/activate does not exist. The Python environment should contain an 'activate' script.", dir)
	}
	return interpreter{}, backend.Errorf(backend.Internal, "the Python environment '%s' has no interpreter bin/python", dir)
}

// extracted returns the directory of the unpacked archive, unpacking it unless
// it was unpacked before in its present state.
func (e *environments) extracted(path string, info os.FileInfo) (string, error) {
	root := e.directory
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no directory for Python environments: %w", err)
		}
		root = filepath.Join(cache, "neso", "environments")
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("no directory for Python environments: %w", err)
	}
	sum := sha256.Sum256([]byte(path))
	name := hex.EncodeToString(sum[:8])
	unlock := e.lock(name)
	defer unlock()
	dir := filepath.Join(root, fmt.Sprintf("%s-%d-%d", name, info.ModTime().UnixNano(), info.Size()))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh, err := os.MkdirTemp(root, name+"-new-")
	if err != nil {
		return "", fmt.Errorf("unpack '%s': %w", path, err)
	}
	err = extractArchive(path, fresh)
	if err == nil {
		if err = os.Rename(fresh, dir); err != nil {
			if _, there := os.Stat(dir); there == nil {
				err = nil // another server was quicker
			}
		}
	}
	if err != nil {
		_ = os.RemoveAll(fresh)
		return "", backend.Errorf(backend.Internal, "unpack the Python environment '%s': %v", path, err)
	}
	_ = os.RemoveAll(fresh) // there only if another server was quicker
	return dir, nil
}

func (e *environments) lock(name string) (unlock func()) {
	e.mu.Lock()
	if e.keys == nil {
		e.keys = map[string]*sync.Mutex{}
	}
	m := e.keys[name]
	if m == nil {
		m = &sync.Mutex{}
		e.keys[name] = m
	}
	e.mu.Unlock()
	m.Lock()
	return m.Unlock
}
