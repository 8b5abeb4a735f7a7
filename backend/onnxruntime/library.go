package onnxruntime

import (
	"strings"

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
	Parameter:  "onnxruntime_library",
}

// environment returns the opened library that a model uses, with its
// process-wide state.
func (d *driver) environment(cfg *backend.Config) (*environment, error) {
	silence()
	return d.environments.Get(&Spec, Spec.LocationsFor(cfg, d.server, d.options.Interpreter),
		func(lib *library.Library) (*environment, error) {
			log := d.host.Logger()
			e, err := newEnvironment(lib, &d.settings, log)
			if err != nil {
				return nil, err
			}
			log.Info("ONNX Runtime opened", "version", e.version, "library", lib.Path, "found", lib.Source, "providers", e.providers)
			return e, nil
		})
}

// Describe looks for the library and says what it has.
func Describe(o Options, server backend.Settings) library.Report {
	silence()
	return Spec.Describe(server, o.Interpreter, func(lib *library.Library, r *library.Report) error {
		a, err := openAPI(lib)
		if err != nil {
			return err
		}
		defer a.release(fnReleaseMemoryInfo, a.memory)
		r.Version = a.version
		providers, err := a.availableProviders()
		for _, p := range providers {
			if p != "AzureExecutionProvider" { // a way to call models elsewhere
				r.Devices = append(r.Devices, strings.TrimSuffix(p, "ExecutionProvider"))
			}
		}
		return err
	})
}
