//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"strconv"
	"strings"
	"sync"

	"github.com/nesoserve/neso/capi/handle"
)

// Trace is that of a request which the server traces: a TRITONSERVER_InferenceTrace of the
// server's, which a library may look at and note activities on while it has the
// request.
type Trace struct {
	request *request
	once    sync.Once
	object  any
	free    func()
}

var traces = handle.NewTable[Trace](kindTrace)

// TraceOf returns the trace of a handle of TRITONBACKEND_RequestTrace, nil for others.
func TraceOf(h handle.Handle) *Trace { return traces.Get(h) }

// Object returns what the functions of tritonserver.h know the trace as, made once, and
// freed with the request.
func (t *Trace) Object(make func() (object any, free func())) any {
	t.once.Do(func() { t.object, t.free = make() })
	return t.object
}

// endTrace ends the trace of a request that is gone for the library.
func endTrace(h handle.Handle) {
	if t := traces.Take(h); t != nil {
		t.once.Do(func() {}) // nobody makes it any more
		if t.free != nil {
			t.free()
		}
	}
}

// Names says which request of which model is traced.
func (t *Trace) Names() (model string, version int64, request string) {
	cfg := &t.request.instance.model.cfg
	return cfg.Name, cfg.Version, t.request.of.ID
}

// Propagated is what requests to other models carry to be of this trace.
func (t *Trace) Propagated() string { return t.request.of.Trace }

// Context is what a client, a program or a collector knows the trace by; "" for none. A
// server that writes to files knows its traces by number.
func (t *Trace) Context() string {
	mark, context := t.parts()
	if mark == "" {
		return t.Propagated()
	}
	return context
}

// parts are the server's own mark, which begins with "#", and what a program has told
// behind it.
func (t *Trace) parts() (mark, context string) {
	if mark, context, _ = strings.Cut(t.Propagated(), " "); strings.HasPrefix(mark, "#") {
		return mark, context
	}
	return "", ""
}

// ID is the number of the trace, 0 for one that has none.
func (t *Trace) ID() uint64 {
	mark, _ := t.parts()
	id, _ := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(mark, "#"), "f"), 10, 64)
	return id
}

// Note has the server note an activity.
func (t *Trace) Note(at uint64, name string) error {
	return t.request.instance.server.Activity(at, t.Propagated(), strings.ToValidUTF8(name, "\uFFFD"))
}

//export neso_asked_TRITONBACKEND_RequestTrace
func neso_asked_TRITONBACKEND_RequestTrace(h, trace C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.trace == 0 && r.of.Trace != "" {
			r.trace = traces.New(&Trace{request: r})
		}
		put(trace, r.trace)
		return 0
	})
}
