package openvino

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// Spec says where the library is found; see `neso backends`.
var Spec = library.Spec{
	Backend:    "openvino",
	Title:      "OpenVINO",
	Linux:      []string{"libopenvino_c.so", "libopenvino_c.so.*"},
	Darwin:     []string{"libopenvino_c.dylib", "libopenvino_c.*.dylib"},
	Windows:    []string{"openvino_c.dll"},
	Packages:   []string{"openvino/libs"},
	Companions: []string{"libopenvino*", "openvino*", "libtbb*", "tbb*", "libhwloc*", "cache.json"},
	Install:    "openvino",
}

// paramLibrary is the parameter of a model configuration that names the library
// or its directory.
const paramLibrary = "openvino_library"

// library returns the opened library that a model uses; one that was missing is
// searched again for the next model.
func (d *driver) library(cfg *backend.Config) (*api, error) {
	named := cfg.Parameters[paramLibrary]
	if named != "" && !filepath.IsAbs(named) {
		named = filepath.Join(cfg.Directory, named)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.libraries[named]; a != nil {
		return a, nil
	}
	lib, err := Spec.Open(library.Places{Named: named, BackendDirectory: d.settings.directory, Python: d.options.Interpreter, Getenv: os.Getenv})
	if err != nil {
		return nil, err
	}
	a, err := openAPI(lib)
	if err != nil {
		return nil, err
	}
	d.libraries[named] = a
	return a, nil
}

// Describe looks for the library and says what it has.
func Describe(o Options, directory string) library.Report {
	r := library.Report{Backend: Spec.Backend}
	lib, err := Spec.Open(library.Places{BackendDirectory: directory, Python: o.Interpreter, Getenv: os.Getenv})
	if err != nil {
		r.Err = err
		return r
	}
	r.Library = lib.Path + " (" + lib.Source + ")"
	a, err := openAPI(lib)
	if err != nil {
		r.Err = err
		return r
	}
	r.Version, _, _ = strings.Cut(a.version, "-")
	r.Devices, r.Err = a.devices(a.core)
	return r
}
