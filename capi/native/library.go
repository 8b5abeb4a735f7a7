//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"encoding/json"
	"maps"
	"math"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// library is a backend library that was opened: a TRITONBACKEND_Backend.
type library struct {
	handle               handle.Handle
	manager              handle.Handle
	path, folder, name   string
	folderText, nameText object.Text
	config               string
	told                 owned // config, as the library has it
	state                uintptr
	policy               C.int
	dl                   unsafe.Pointer
	entry                entries
	initializing, ready  bool
}

// entries are the functions of a library; those that it need not have are nil where
// it does not.
type entries struct {
	initialize, finalize, modelInitialize, modelFinalize, instanceInitialize, instanceFinalize, execute, attribute unsafe.Pointer
}

var (
	backends   = handle.NewTable[library](kindBackend)
	managers   = handle.NewTable[library](kindManager)
	attributes = handle.NewTable[attribute](kindAttributes)
)

// attribute is a TRITONBACKEND_BackendAttribute.
type attribute struct {
	groups   []group
	parallel bool
}

// group is what a library prefers where the configuration says nothing.
type group struct {
	kind    C.int
	count   uint64
	devices []int64
}

// open returns the library of a model, opened and initialized.
func (w *worker) open(l *host.Load) (*library, error) {
	w.libraries.mu.Lock()
	defer w.libraries.mu.Unlock()
	if lib := w.libraries.list[l.Library]; lib != nil {
		if lib.name != l.View.Backend {
			return nil, backend.Errorf(backend.InvalidArg, "library '%s' is that of backend '%s' already", l.Library, lib.name)
		}
		return lib, nil
	}
	lib := &library{path: l.Library, folder: l.Directory, name: l.View.Backend, config: commandLine(l)}
	if err := lib.link(); err != nil {
		return nil, err
	}
	lib.handle, lib.manager = backends.New(lib), managers.New(lib)
	lib.initializing = true
	err := call(lib.entry.initialize, lib.handle)
	lib.initializing = false
	if err != nil {
		return nil, err
	}
	lib.ready = true
	w.libraries.list[l.Library] = lib
	return lib, nil
}

// commandLine is what the server was told of the backend.
func commandLine(l *host.Load) string {
	values := map[string]string{
		"auto-complete-config": "false", "backend-directory": l.Settings.Directory, "min-compute-capability": "6.000000",
		"default-max-batch-size": "4",
	}
	if l.Complete {
		values["auto-complete-config"] = "true"
	}
	if l.Settings.Directory == "" {
		values["backend-directory"] = "/opt/tritonserver/backends"
	}
	maps.Copy(values, l.Settings.Values)
	body, _ := json.Marshal(map[string]any{"cmdline": values}) // strings always can
	return string(body)
}

// link opens the library and looks up its functions.
func (l *library) link() (err error) {
	l.dl, err = Link(l.path, []Entry{
		{"TRITONBACKEND_Initialize", &l.entry.initialize, false},
		{"TRITONBACKEND_Finalize", &l.entry.finalize, false},
		{"TRITONBACKEND_GetBackendAttribute", &l.entry.attribute, false},
		{"TRITONBACKEND_ModelInitialize", &l.entry.modelInitialize, false},
		{"TRITONBACKEND_ModelFinalize", &l.entry.modelFinalize, false},
		{"TRITONBACKEND_ModelInstanceInitialize", &l.entry.instanceInitialize, false},
		{"TRITONBACKEND_ModelInstanceFinalize", &l.entry.instanceFinalize, false},
		{"TRITONBACKEND_ModelInstanceExecute", &l.entry.execute, true},
	})
	return err
}

// call calls a function that takes one object, if the library has it.
func call(f unsafe.Pointer, h handle.Handle) error {
	if f == nil {
		return nil
	}
	return taken(C.neso_call1(f, C.uintptr_t(h)))
}

// taken returns the error that a library's function returned, which is ours then.
func taken(e C.uintptr_t) error { return object.Taken(handle.Handle(e)) }

// attributes asks the library what it prefers.
func (l *library) attributes() *attribute {
	if l.entry.attribute == nil {
		return nil
	}
	a := &attribute{}
	h := attributes.New(a)
	defer attributes.Take(h)
	if taken(C.neso_call2(l.entry.attribute, C.uintptr_t(l.handle), C.uintptr_t(h))) != nil {
		return nil // what the call has set is void
	}
	return a
}

// preferred are the groups that a library has added, nil for one that says nothing.
func (a *attribute) preferred() (all []backend.PreferredGroup) {
	if a == nil {
		return nil
	}
	for _, g := range a.groups {
		p := backend.PreferredGroup{Count: int(min(g.count, math.MaxInt32))}
		for name, kind := range kinds {
			if kind == g.kind {
				p.Kind = name
			}
		}
		for _, id := range g.devices {
			p.Devices = append(p.Devices, int(min(max(id, -1), math.MaxInt32)))
		}
		all = append(all, p)
	}
	return all
}

// end finalizes a library. It stays open: threads of its may still run.
func (l *library) end() error {
	if !l.ready {
		return nil
	}
	l.ready = false
	err := call(l.entry.finalize, l.handle)
	backends.Take(l.handle)
	managers.Take(l.manager)
	l.told.free()
	return err
}
