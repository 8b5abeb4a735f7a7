package genai

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/onnxruntime"
)

// Spec says where the library is found; see `neso backends`.
var Spec = library.Spec{
	Backend:    "genai",
	Title:      "ONNX Runtime GenAI",
	Linux:      []string{"libonnxruntime-genai.so", "libonnxruntime-genai.so.*"},
	Darwin:     []string{"libonnxruntime-genai.dylib", "libonnxruntime-genai.*.dylib"},
	Windows:    []string{"onnxruntime-genai.dll"},
	Packages:   []string{"onnxruntime_genai"},
	Companions: []string{"libonnxruntime-genai-*", "onnxruntime-genai-*", "D3D12Core.dll"},
	Install:    "onnxruntime-genai",
	Parameter:  "genai_library",
	Before:     openRuntime,
}

// What ONNX Runtime and its GenAI read from the environment: a library that reports nothing to
// its makers, and the ONNX Runtime to use.
const (
	variableNoTelemetry = "ORT_DISABLE_TELEMETRY"
	variableRuntime     = "ORT_LIB_PATH"
)

// setDefault sets a variable that the user has not.
func setDefault(name, value string) {
	if _, said := os.LookupEnv(name); !said {
		_ = os.Setenv(name, value) // only fails for names and values that are none
	}
}

// library returns the opened library that a model uses.
func (d *driver) library(cfg *backend.Config) (*api, error) {
	return d.libraries.Get(&Spec, Spec.LocationsFor(cfg, d.server, d.options.Interpreter), func(lib *library.Library) (*api, error) {
		a, err := openAPI(lib)
		if err == nil {
			d.host.Logger().Info("ONNX Runtime GenAI opened", slog.String("library", lib.Path), slog.String("found", lib.Source),
				slog.Bool("engine", a.hasEngine))
		}
		return a, err
	})
}

// openRuntime opens ONNX Runtime, on which the library runs: it looks for it while it is being
// opened, beside itself and in the system alone, and ends the process where it is not there.
func openRuntime(path string, p library.Locations) error {
	setDefault(variableNoTelemetry, "1")
	ort, err := onnxruntime.Spec.Open(p)
	if err == nil {
		if filepath.IsAbs(ort.Path) {
			setDefault(variableRuntime, ort.Path)
		}
		return nil
	}
	for _, name := range []string{"libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.dylib", "onnxruntime.dll"} {
		beside := filepath.Join(filepath.Dir(path), name)
		if _, missing := os.Stat(beside); path != "" && missing == nil {
			setDefault(variableRuntime, beside)
			return nil
		}
	}
	return backend.Errorf(backend.NotFound, "ONNX Runtime GenAI at '%s' needs ONNX Runtime: %v", path, err)
}

// Describe looks for the library and says what it is.
func Describe(o Options, server backend.Settings) library.Report {
	return Spec.Describe(server, o.Interpreter, func(lib *library.Library, r *library.Report) error {
		if _, err := openAPI(lib); err != nil {
			return err
		}
		r.Version, r.Devices = "-", []string{"CPU"}
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(lib.Path), "*onnxruntime-genai-cuda*")); len(found) > 0 {
			r.Devices = append(r.Devices, "CUDA")
		}
		return nil
	})
}
