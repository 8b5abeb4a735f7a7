//go:build !nopurego && (linux || darwin)

package library

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// openFile resolves all symbols at once: what is missing shows now and not in
// the midst of a request. Symbols stay private to the library.
func openFile(path string) (*Library, error) {
	runtime.LockOSThread() // its error is this thread's
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	runtime.UnlockOSThread()
	if err != nil {
		return nil, err
	}
	return &Library{Path: path, handle: handle}, nil
}

// Symbol returns a function of the library.
func (l *Library) Symbol(name string) (Function, error) {
	f, err := purego.Dlsym(l.handle, name)
	if err != nil || f == 0 {
		return 0, fmt.Errorf("%s has no function %s", l.Path, name)
	}
	return Function(f), nil
}
