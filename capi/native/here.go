//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"fmt"
	"os"
	"sync"

	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/native/host"
)

// opened are the libraries of a process, each opened and initialized once. They stay
// until end, since code of theirs may run as long.
type opened struct {
	mu   sync.Mutex // held while a library is opened and initialized
	list map[string]*library
}

// end finalizes them.
func (o *opened) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for path, l := range o.list {
		_ = l.end() // nobody is left to tell
		delete(o.list, path)
	}
}

// here runs the libraries of one server in the process of the program that has it.
type here struct{ libraries opened }

// Here returns what runs libraries of a server in this process, which is not neso-host: a
// fault of theirs is the program's.
func Here() native.Here {
	C.neso_share() // else libraries that are not linked against this one do not find it
	return &here{opened{list: map[string]*library{}}}
}

// Serve implements native.Here.
func (h *here) Serve(control, descriptors *os.File, beside *host.Near) {
	server, err := host.Over(control, descriptors, beside)
	if err != nil {
		fmt.Fprintln(os.Stderr, host.InProcess, err)
		return
	}
	server.Serve(newWorker(server, nil, &h.libraries))
}

// Close implements native.Here.
func (h *here) Close() { h.libraries.end() }
