package onnxruntime

import (
	"os"
	"path/filepath"
	"runtime"
	"unicode/utf16"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// operatorLibrary resolves a name of model_operations.op_library_filename: a
// file of the version, else of the model, else what the dynamic loader finds.
func operatorLibrary(cfg *backend.Config, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	for _, dir := range []string{cfg.VersionDirectory, cfg.Directory} {
		if path := filepath.Join(dir, name); dir != "" {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return name
}

// registerOperators adds the operators of the model's own libraries. ONNX
// Runtime keeps those libraries open as long as the session lives.
func (e *environment) registerOperators(options uintptr, o *sessionOptions, cfg *backend.Config) error {
	for _, path := range o.operators {
		p := pathArgument(path)
		if err := e.call(fnRegisterCustomOpsLibraryV2, options, uintptr(unsafe.Pointer(p))); err != nil {
			return backend.Errorf(backend.Internal,
				"operator library '%s' of model '%s': %s (it must lie in the version's or the model's directory, or be found by the dynamic loader)",
				filepath.Base(path), cfg.Name, hidePaths(cfg, err.Error()))
		}
	}
	return nil
}

// pathArgument returns a path as the C API wants it: UTF-16 on Windows.
func pathArgument(path string) *byte {
	if runtime.GOOS != "windows" {
		return library.CString(path)
	}
	wide := append(utf16.Encode([]rune(path)), 0)
	return (*byte)(unsafe.Pointer(&wide[0]))
}
