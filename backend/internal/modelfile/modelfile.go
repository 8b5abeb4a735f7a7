package modelfile

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
)

// Path returns where a file of a version lies, that need not be there. name is
// the configuration's default_model_filename or one that the backend knows,
// with slashes; one that leads out of the version directory is INVALID_ARG, and
// so is what can be no model: see [Plain].
func Path(cfg *backend.Config, name string) (string, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return "", backend.Errorf(backend.InvalidArg, "default_model_filename '%s' of model '%s' leads out of the version directory", name,
			cfg.Name)
	}
	path := filepath.Join(cfg.VersionDirectory, local)
	return path, Plain(cfg, path)
}

// Plain is an error for a pipe, a socket or a device: whoever reads one waits
// until somebody writes to it, libraries in the server's process too. Anything
// else, also what is not there, is nil.
func Plain(cfg *backend.Config, path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	return backend.Errorf(backend.InvalidArg, "'%s' of model '%s' is a pipe, a socket or a device, not a file", filepath.Base(path), cfg.Name)
}

// Stamp tells one content of a file from another, as far as its size and time
// of change do; "" for a file that is not there.
func Stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(path, info.ModTime(), info.Size())
}
