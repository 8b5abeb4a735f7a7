//go:build !nopurego

package library

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// openFile searches what the library needs beside the library itself.
func openFile(path string) (*Library, error) {
	flags := uintptr(windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
	if filepath.IsAbs(path) {
		flags |= windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR
	}
	handle, err := windows.LoadLibraryEx(path, 0, flags)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Library{Path: path, handle: uintptr(handle)}, nil
}

// Symbol returns a function of the library.
func (l *Library) Symbol(name string) (Function, error) {
	f, err := windows.GetProcAddress(windows.Handle(l.handle), name)
	if err != nil {
		return 0, fmt.Errorf("%s has no function %s", l.Path, name)
	}
	return Function(f), nil
}
