package fil

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// Spec says where the library is found; see `neso backends`.
var Spec = library.Spec{
	Backend:    "fil",
	Title:      "treelite",
	Linux:      []string{"libtreelite.so"},
	Darwin:     []string{"libtreelite.dylib"},
	Windows:    []string{"treelite.dll"},
	Packages:   []string{"treelite/lib"},
	Companions: []string{"libgomp*"},
	Install:    "treelite",
}

// paramLibrary is the parameter of a model configuration that names the library
// or its directory.
const paramLibrary = "treelite_library"

// library returns the opened library that a model uses.
func (d *driver) library(cfg *backend.Config) (*api, error) {
	named := ""
	if cfg != nil {
		named = cfg.Parameters[paramLibrary]
	}
	key := named
	if named != "" && !filepath.IsAbs(named) {
		key = filepath.Join(cfg.Directory, named)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.libraries[key]; a != nil {
		return a, nil
	}
	p := library.Places{Named: key, BackendDirectory: d.settings.directory, Python: d.options.Interpreter, Getenv: os.Getenv}
	lib, err := Spec.Open(p)
	if err != nil {
		return nil, err
	}
	a, err := openAPI(lib)
	if err != nil {
		return nil, err
	}
	d.libraries[key] = a
	return a, nil
}

// Describe looks for the library and says what it is.
func Describe(o Options, directory string) library.Report {
	r := library.Report{Backend: Spec.Backend}
	lib, err := Spec.Open(library.Places{BackendDirectory: directory, Python: o.Interpreter, Getenv: os.Getenv})
	if err != nil {
		r.Err = err
		return r
	}
	r.Library = lib.Path + " (" + lib.Source + ")"
	if _, err := openAPI(lib); err != nil {
		r.Err = err
		return r
	}
	r.Version = versionBeside(lib.Path)
	r.Devices = []string{"CPU"}
	return r
}

// versionBeside reads the version of a library that lies in its Python package:
// the library itself does not say.
func versionBeside(path string) string {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "..", "VERSION"))
	if err != nil || len(text) > 64 {
		return "4"
	}
	return strings.TrimSpace(string(text))
}
