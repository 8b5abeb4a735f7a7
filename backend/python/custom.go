package python

import (
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
)

const (
	// ownName is the backend's own name; a model of any other one is of a
	// python-based backend.
	ownName = "python"
	// modelFile is what makes a folder of the backend directory a python-based
	// backend, and a configuration's `runtime` ask for one.
	modelFile = "model.py"
	// environmentArchive may lie beside it: the environment of the backend's models.
	environmentArchive = "pb_exec_env_model.py.tar.gz"
)

// implements is backend.Driver.Implements. A native library of the same name
// comes first, unless the configuration asks for model.py.
func implements(name, directory, runtime string) bool {
	if directory == "" || name == "" || name == ownName || filepath.Base(name) != name || runtime != "" && runtime != modelFile {
		return false
	}
	folder := filepath.Join(directory, name)
	return isFile(filepath.Join(folder, modelFile)) && (runtime == modelFile || !isFile(filepath.Join(folder, "libtriton_"+name+".so")))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// customFolder returns the folder of the python-based backend of the model, or
// "" for a model with a model.py of its own.
func (d *driver) customFolder(cfg *backend.Config) string {
	if cfg.Backend == "" || cfg.Backend == ownName || d.hosted != nil {
		return ""
	}
	return filepath.Join(d.server.Directory, cfg.Backend)
}

// environmentOf returns the EXECUTION_ENV_PATH of the model: its own, else that
// of its python-based backend.
func (d *driver) environmentOf(cfg *backend.Config) string {
	path := cfg.Parameters[paramEnvironment]
	if folder := d.customFolder(cfg); path == "" && folder != "" {
		if archive := filepath.Join(folder, environmentArchive); isFile(archive) {
			return archive
		}
	}
	return path
}
