package onnxruntime

import (
	"os"
	"strings"

	"github.com/nesoserve/neso/backend/internal/library"
)

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
	defer a.release(fnReleaseMemoryInfo, a.memory)
	r.Version = a.version
	providers, err := a.availableProviders()
	if err != nil {
		r.Err = err
		return r
	}
	for _, p := range providers {
		if p != "AzureExecutionProvider" { // a way to call models elsewhere
			r.Devices = append(r.Devices, strings.TrimSuffix(p, "ExecutionProvider"))
		}
	}
	return r
}
