package openvino

import (
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
	Parameter:  "openvino_library",
}

// library returns the opened library that a model uses.
func (d *driver) library(cfg *backend.Config) (*api, error) {
	return d.libraries.Get(&Spec, Spec.LocationsFor(cfg, d.server, d.options.Interpreter), openAPI)
}

// Describe looks for the library and says what it has.
func Describe(o Options, server backend.Settings) library.Report {
	return Spec.Describe(server, o.Interpreter, func(lib *library.Library, r *library.Report) (err error) {
		a, err := openAPI(lib)
		if err != nil {
			return err
		}
		r.Version, _, _ = strings.Cut(a.version, "-")
		r.Devices, err = a.devices(a.core)
		return err
	})
}
