//go:build cgo

package native

// #cgo LDFLAGS: -ldl
// #include "loader.h"
import "C"

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// worker is what neso-host, or a worker in the process of a program, has loaded.
type worker struct {
	server    *host.Server
	journal   *journal // nil in a program, whose log is this process's
	libraries *opened

	mu        sync.Mutex // guards what follows; no function of a library is called under it
	models    map[uint32]*model
	instances map[uint32]*instance
	batchers  map[uint32]*batcher
	order     []uint32 // of the instances, as they were made
}

func newWorker(server *host.Server, j *journal, libraries *opened) *worker {
	return &worker{
		server: server, journal: j, libraries: libraries, models: map[uint32]*model{}, instances: map[uint32]*instance{},
		batchers: map[uint32]*batcher{},
	}
}

// neso_host_main is the program neso-host: it serves until the server says that it is
// enough, and returns the exit status.
//
//export neso_host_main
func neso_host_main() C.int {
	defer profile()()
	server, err := host.Connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	Catch()
	server.Watch(watch(C.NESO_OUTPUTS), watch(C.NESO_INPUTS))
	j := &journal{server: server}
	hosted.Store(j)
	return C.int(server.Serve(newWorker(server, j, &opened{list: map[string]*library{}})))
}

// profile begins what a build with the tag profiled notes, and returns the end of it.
var profile = func() (end func()) { return func() {} }

func watch(kind C.int) func([]byte) {
	return func(b []byte) { C.neso_watch(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)), kind) }
}

// Load implements host.Library.
func (w *worker) Load(l *host.Load) (*host.Loaded, error) {
	if w.journal != nil {
		w.journal.verbose.Store(l.Verbose)
	}
	Preload(l.Preload)
	if w.model(l.Model) != nil {
		return nil, backend.Errorf(backend.Internal, "worker protocol: model %d was loaded before", l.Model)
	}
	lib, err := w.open(l)
	if err != nil {
		return nil, err
	}
	if l.Attributes {
		a := lib.attributes()
		return &host.Loaded{Preferred: a.preferred(), Parallel: a != nil && a.parallel}, nil
	}
	m, err := lib.load(l, w.server)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.models[l.Model] = m
	w.mu.Unlock()
	if !m.changed {
		return &host.Loaded{}, nil
	}
	return &host.Loaded{Config: []byte(m.config)}, nil
}

func (w *worker) model(number uint32) *model {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.models[number]
}

// Init implements host.Library.
func (w *worker) Init(number uint32, i *host.Init) (func([]*host.Request) error, error) {
	m := w.model(i.Model)
	if m == nil {
		return nil, backend.Errorf(backend.Internal, "worker protocol: model %d was not loaded", i.Model)
	}
	if i.Batching != "" {
		b, err := m.batching(i, w.server)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.batchers[number] = b
		return b.execute, nil
	}
	in, err := m.instance(number, i, w.server)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances[number] = in
	w.order = append(w.order, number)
	return in.execute, nil
}

// End implements host.Library.
func (w *worker) End(number uint32) error {
	w.mu.Lock()
	b, in := w.batchers[number], w.instances[number]
	delete(w.batchers, number)
	delete(w.instances, number)
	w.order = slices.DeleteFunc(w.order, func(n uint32) bool { return n == number })
	w.mu.Unlock()
	switch {
	case b != nil:
		return b.end()
	case in != nil:
		return in.end()
	}
	return nil
}

// Unload implements host.Library.
func (w *worker) Unload(number uint32) error {
	w.mu.Lock()
	m := w.models[number]
	delete(w.models, number)
	w.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.end()
}

// Exit implements host.Library. Nothing else is called any more.
func (w *worker) Exit() {
	for _, number := range slices.Clone(w.order) {
		_ = w.End(number)
	}
	for number := range w.batchers {
		_ = w.End(number)
	}
	for number := range w.models {
		_ = w.Unload(number)
	}
	if w.journal != nil {
		w.libraries.end()
	}
}

// at turns an address of C's memory into a pointer.
func at(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// result is what an exported function returns for an error of Go.
func result(err error) C.uintptr_t { return C.uintptr_t(object.FromError(err)) }

func errorf(code backend.Code, format string, args ...any) C.uintptr_t {
	return C.uintptr_t(object.Errorf(code, format, args...))
}

func stale(what string) C.uintptr_t { return C.uintptr_t(object.Stale(what)) }

func put[T any](to C.uintptr_t, v T) { object.Set(uintptr(to), v) }

// text puts the address of a string.
func text(to C.uintptr_t, t *object.Text, s string) { put(to, t.C(s)) }

// The kinds of objects of this interface.
const (
	kindBackend = handle.BackendKinds + iota
	kindModel
	kindInstance
	kindRequest
	kindInput
	kindOutput
	kindResponse
	kindFactory
	kindManager
	kindAttributes
	kindStatistics
	kindState
	kindServer
	kindTrace
)
