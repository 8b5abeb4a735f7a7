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
	Companions: []string{"libgomp*", "libomp*"},
	Bundled:    []string{"treelite.libs", "treelite/.dylibs"},
	Install:    "treelite",
	Parameter:  "treelite_library",
}

// library returns the opened library that a model uses.
func (d *driver) library(cfg *backend.Config) (*api, error) {
	return d.libraries.Get(&Spec, Spec.LocationsFor(cfg, d.server, d.options.Interpreter), openAPI)
}

// Describe looks for the library and says what it is.
func Describe(o Options, server backend.Settings) library.Report {
	return Spec.Describe(server, o.Interpreter, func(lib *library.Library, r *library.Report) error {
		if _, err := openAPI(lib); err != nil {
			return err
		}
		r.Version, r.Devices = versionBeside(lib.Path), []string{"CPU"}
		return nil
	})
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
