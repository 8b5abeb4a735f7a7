package onnxruntime

import (
	"os"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// Spec says where the library is found; see `neso backends`.
var Spec = library.Spec{
	Backend:    "onnxruntime",
	Title:      "ONNX Runtime",
	Linux:      []string{"libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.so.*"},
	Darwin:     []string{"libonnxruntime.dylib", "libonnxruntime.*.dylib"},
	Windows:    []string{"onnxruntime.dll"},
	Packages:   []string{"onnxruntime/capi"},
	Companions: []string{"libonnxruntime_providers_*", "onnxruntime_providers_*"},
	Install:    "onnxruntime",
}

// paramLibrary is the parameter of a model configuration that names the library
// or its directory.
const paramLibrary = "onnxruntime_library"

// environment returns the opened library that a model uses, with its
// process-wide state.
func (d *driver) environment(cfg *backend.Config) (*environment, error) {
	return d.openEnvironment(library.Places{
		Named: cfg.Parameters[paramLibrary], Base: cfg.Directory,
		BackendDirectory: d.settings.directory, Python: d.options.Interpreter, Getenv: os.Getenv,
	})
}

// openEnvironment opens a library once; one that was missing is searched again
// for the next model.
func (d *driver) openEnvironment(p library.Places) (*environment, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := p.Named
	if key != "" {
		key = p.Base + "\x00" + key
	}
	if e := d.byName[key]; e != nil {
		return e, nil
	}
	silence()
	lib, err := Spec.Open(p)
	if err != nil {
		return nil, err
	}
	e := d.environments[lib.Path]
	if e == nil {
		if e, err = newEnvironment(lib, &d.settings, d.host.Logger()); err != nil {
			return nil, err
		}
		d.environments[lib.Path] = e
		d.host.Logger().Info("ONNX Runtime opened", "version", e.version, "library", lib.Path, "found", lib.Source, "providers", e.providers)
	}
	d.byName[key] = e
	return e, nil
}
