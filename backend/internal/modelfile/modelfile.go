package modelfile

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
)

// Path returns where a file of a version lies, that need not be there. name is
// the configuration's default_model_filename or one that the backend knows,
// with slashes; one that leads out of the version directory is INVALID_ARG.
func Path(cfg *backend.Config, name string) (string, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return "", backend.Errorf(backend.InvalidArg, "default_model_filename '%s' of model '%s' leads out of the version directory", name, cfg.Name)
	}
	return filepath.Join(cfg.VersionDirectory, local), nil
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
