//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// Levels of TRITONSERVER_InferenceTraceLevel; the two old ones mean timestamps.
const (
	levelMin, levelMax, levelTimestamps, levelTensors = 1, 2, 4, 8
)

// Activities of TRITONSERVER_InferenceTraceActivity.
const (
	requestStart = iota
	queueStart
	computeStart
	computeInputEnd
	computeOutputStart
	computeEnd
	requestEnd
	queueInput
	backendInput
	backendOutput
	customActivity
)

// traced is a TRITONSERVER_InferenceTrace: the program's until a request takes it, and
// again from its release callback on.
type traced struct {
	handle                      handle.Handle
	level                       uint32
	id, parent                  uint64
	activity, tensors, released C.word
	userp                       C.word
	taken                       atomic.Bool
	note                        func(ns uint64, activity string) error // of a trace of another process
	propagated                  string                                 // what requests of it carry there

	mu             sync.Mutex
	model, request string
	version        int64
	context        string
	modelText      object.Text
	requestText    object.Text
	contextText    object.Text
}

// traceOf returns the trace of a handle, nil where there is none.
func traceOf(h handle.Handle) *traced {
	if t := traces.Get(h); t != nil {
		return t
	}
	return hostedTrace(h)
}

var (
	traces    = handle.NewTable[traced](handle.Trace)
	lastTrace atomic.Uint64
)

//export TRITONSERVER_InferenceTraceNew
func TRITONSERVER_InferenceTraceNew(made C.uintptr_t, level C.int, parent C.uint64_t, activity, release, userp C.uintptr_t) C.uintptr_t {
	return TRITONSERVER_InferenceTraceTensorNew(made, level, parent, activity, 0, release, userp)
}

//export TRITONSERVER_InferenceTraceTensorNew
func TRITONSERVER_InferenceTraceTensorNew(made C.uintptr_t, level C.int, parent C.uint64_t, activity, tensors, release,
	userp C.uintptr_t,
) C.uintptr_t {
	if made == 0 || activity == 0 && tensors == 0 || release == 0 {
		return C.uintptr_t(object.Null("the place for the trace, and its functions,"))
	}
	t := &traced{
		level: uint32(level), parent: uint64(parent), activity: activity, tensors: tensors, released: release,
		userp: userp,
	}
	t.open()
	object.Set(uintptr(made), uintptr(t.handle))
	return 0
}

// open gives a trace its number and handle.
func (t *traced) open() {
	t.id = lastTrace.Add(1)
	t.handle = traces.New(t)
}

// spawn makes a trace below t.
func (t *traced) spawn() *traced {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &traced{
		level: t.level, parent: t.id, activity: t.activity, tensors: t.tensors, released: t.released, userp: t.userp,
		model: t.model, version: t.version, request: t.request, context: t.context, propagated: t.propagated,
	}
	c.open()
	return c
}

// times reports whether the trace has moments.
func (t *traced) times() bool {
	return t.activity != 0 && t.level&(levelMin|levelMax|levelTimestamps) != 0
}

func (t *traced) at(activity C.int, ns int64) {
	if t.times() {
		C.call_activity(t.activity, C.word(t.handle), activity, C.uint64_t(steady(ns)), t.userp)
	}
}

// show hands tensors to the program, which may look at them until it returns.
func (t *traced) show(activity C.int, list []tensor.Tensor) {
	if t.tensors == 0 || t.level&levelTensors == 0 {
		return
	}
	for i := range list {
		x := &list[i]
		texts := object.NewBlock(8*len(x.Shape) + len(x.Name) + 1)
		shape := texts.Int64s(x.Shape)
		data, free := object.Lend(x.Data)
		C.call_tensor(t.tensors, C.word(t.handle), activity, C.word(texts.Text(x.Name)), C.int(x.Datatype), C.word(data), C.size_t(len(x.Data)),
			C.word(shape), C.uint64_t(len(x.Shape)), t.userp)
		free()
		texts.Free()
	}
}

// give hands the trace back to the program.
func (t *traced) give() {
	if t.released == 0 { // of another process, which has nothing to give it back to
		if traces.Take(t.handle) != nil {
			t.free()
		}
		return
	}
	t.taken.Store(false)
	C.call_trace_release(t.released, C.word(t.handle), t.userp)
}

// trace calls f with the trace of a handle. What f returns is the error.
func trace(h C.uintptr_t, f func(t *traced) handle.Handle) C.uintptr_t {
	t := traceOf(handle.Handle(h))
	if t == nil {
		return C.uintptr_t(object.Stale("inference trace"))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return C.uintptr_t(f(t))
}

// say writes something of a trace where the program wants it.
func say[T any](h, to C.uintptr_t, of func(t *traced) T) C.uintptr_t {
	return trace(h, func(t *traced) handle.Handle {
		if to == 0 {
			return object.Null("the place for the value")
		}
		object.Set(uintptr(to), of(t))
		return 0
	})
}

//export TRITONSERVER_InferenceTraceDelete
func TRITONSERVER_InferenceTraceDelete(h C.uintptr_t) C.uintptr_t {
	t := traceOf(handle.Handle(h))
	switch {
	case t == nil:
		return C.uintptr_t(object.Stale("inference trace"))
	case t.taken.Load():
		return C.uintptr_t(object.Errorf(backend.Internal, "the inference trace is a request's until it is released"))
	case traces.Take(handle.Handle(h)) == nil:
		return C.uintptr_t(object.Stale("inference trace"))
	}
	t.free()
	return 0
}

func (t *traced) free() {
	t.modelText.Free()
	t.requestText.Free()
	t.contextText.Free()
}

//export TRITONSERVER_InferenceTraceId
func TRITONSERVER_InferenceTraceId(h, id C.uintptr_t) C.uintptr_t {
	return say(h, id, func(t *traced) uint64 { return t.id })
}

//export TRITONSERVER_InferenceTraceParentId
func TRITONSERVER_InferenceTraceParentId(h, id C.uintptr_t) C.uintptr_t {
	return say(h, id, func(t *traced) uint64 { return t.parent })
}

//export TRITONSERVER_InferenceTraceModelName
func TRITONSERVER_InferenceTraceModelName(h, name C.uintptr_t) C.uintptr_t {
	return say(h, name, func(t *traced) uintptr { return t.modelText.C(t.model) })
}

//export TRITONSERVER_InferenceTraceModelVersion
func TRITONSERVER_InferenceTraceModelVersion(h, version C.uintptr_t) C.uintptr_t {
	return say(h, version, func(t *traced) int64 { return t.version })
}

//export TRITONSERVER_InferenceTraceRequestId
func TRITONSERVER_InferenceTraceRequestId(h, id C.uintptr_t) C.uintptr_t {
	return say(h, id, func(t *traced) uintptr { return t.requestText.C(t.request) })
}

//export TRITONSERVER_InferenceTraceContext
func TRITONSERVER_InferenceTraceContext(h, context C.uintptr_t) C.uintptr_t {
	return say(h, context, func(t *traced) uintptr { return t.contextText.C(t.context) })
}

//export TRITONSERVER_InferenceTraceSetContext
func TRITONSERVER_InferenceTraceSetContext(h, context C.uintptr_t) C.uintptr_t {
	return trace(h, func(t *traced) handle.Handle {
		t.contextText.Free()
		t.context = object.String(uintptr(context))
		return 0
	})
}

//export TRITONSERVER_InferenceTraceSpawnChildTrace
func TRITONSERVER_InferenceTraceSpawnChildTrace(h, child C.uintptr_t) C.uintptr_t {
	t := traceOf(handle.Handle(h))
	switch {
	case t == nil:
		return C.uintptr_t(object.Stale("inference trace"))
	case child == 0:
		return C.uintptr_t(object.Null("the place for the child"))
	}
	object.Set(uintptr(child), uintptr(t.spawn().handle))
	return 0
}

//export TRITONSERVER_InferenceTraceReportActivity
func TRITONSERVER_InferenceTraceReportActivity(h C.uintptr_t, ns C.uint64_t, activity C.uintptr_t) C.uintptr_t {
	t := traceOf(handle.Handle(h))
	if t == nil {
		return C.uintptr_t(object.Stale("inference trace"))
	}
	if t.note != nil {
		return C.uintptr_t(object.FromError(t.note(uint64(ns), object.String(uintptr(activity)))))
	}
	if t.times() {
		C.call_activity(t.activity, C.word(t.handle), customActivity, ns, t.userp)
	}
	return 0
}

// takeTrace makes a trace a request's; nil for null.
func takeTrace(h handle.Handle) (*follower, handle.Handle) {
	if h == 0 {
		return nil, 0
	}
	t := traceOf(h)
	if t == nil {
		return nil, object.Stale("inference trace")
	}
	if t.taken.Swap(true) {
		return nil, object.Errorf(backend.InvalidArg, "the inference trace is another request's until it is released")
	}
	return &follower{t: t}, 0
}

// follower shows a program one request of a trace, in the order of the peer: activities
// of the request until it waits when they are, those of its execution with their times
// once the program has its response, as a backend reports them there.
type follower struct {
	t      *traced
	queued bool
}

func (f *follower) describe(model string, version int64, id string) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modelText.Free()
	t.requestText.Free()
	t.model, t.version, t.request = model, version, id
}

// abandon gives the trace of a request that was refused back.
func (f *follower) abandon() {
	if f.t.taken.Load() {
		f.t.give()
	}
}

// Begin implements neso.Follower.
func (f *follower) Begin(model string, version int64, id string, start int64) string {
	f.describe(model, version, id)
	f.t.at(requestStart, start)
	if f.t.propagated != "" {
		return f.t.propagated
	}
	return f.t.context
}

// Number implements neso.Follower.
func (f *follower) Number() uint64 { return f.t.id }

// Note implements neso.Follower.
func (f *follower) Note(at int64, _ string) { f.t.at(customActivity, at) }

// Queue implements neso.Follower.
func (f *follower) Queue(at int64, inputs []tensor.Tensor) {
	f.queued = true
	f.t.at(queueStart, at)
	f.t.show(queueInput, inputs)
}

// Outputs implements neso.Follower.
func (f *follower) Outputs(outputs []tensor.Tensor) { f.t.show(backendOutput, outputs) }

// End implements neso.Follower.
func (f *follower) End(m neso.Moments) {
	if !f.queued && m.Queue != 0 {
		f.t.at(queueStart, m.Queue)
	}
	if m.ComputeStart != 0 {
		end := first(m.ComputeEnd, m.End)
		f.t.at(computeStart, m.ComputeStart)
		f.t.at(computeInputEnd, first(m.InputEnd, m.ComputeStart))
		f.t.at(computeOutputStart, first(m.OutputStart, end))
		f.t.at(computeEnd, end)
	}
	f.t.at(requestEnd, m.End)
	f.t.give()
}

func first(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

// Child implements neso.Follower.
func (f *follower) Child() neso.Follower {
	c := f.t.spawn()
	c.taken.Store(true)
	return &follower{t: c}
}
