//go:build cgo

package native

// #include <stdlib.h>
// #include <string.h>
// #include "loader.h"
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// request is a TRITONBACKEND_Request. It lives until the library releases it, and
// what can answer it, its responses and factories, may live longer.
type request struct {
	handle   handle.Handle
	instance *instance
	of       *host.Request
	sender   backend.Sender // a program of this process; nil for all others
	keep     *tensor.Buffer // the program's pieces of inputs; nil without any
	inputs   []input
	memory   block // of C: what its inputs have that is not in shared memory

	id          uintptr // in memory: the same place for who reads its view and who asks
	correlation object.Text
	trace       handle.Handle // 0 before it is asked for
	parameters  []parameter

	lookedAt bool // by a batching library, which may do nothing but read it

	reported atomic.Uint64 // responses, in response statistics

	mu       sync.Mutex
	released bool
	ended    bool // the final answer was given
	ways     int  // responses that were not sent, and factories
	states   []*state

	room [2]input // for the inputs, where there are no more
}

// parameter is what a request's parameter is read from.
type parameter struct {
	key, value object.Text
	number     uintptr // of C
}

var requests = handle.NewTable[request](kindRequest)

func newRequest(in *instance, of *host.Request) *request {
	of.Requested = in.visible(of.Requested)
	r := &request{instance: in, of: of}
	r.sender, r.keep = of.SentBy()
	if r.inputs = r.room[:]; len(of.Inputs) > len(r.room) {
		r.inputs = make([]input, len(of.Inputs))
	}
	r.inputs = r.inputs[:len(of.Inputs)]
	if len(of.Parameters) > 0 {
		r.parameters = make([]parameter, len(of.Parameters))
	}
	size := len(of.ID) + 1
	for k := range of.Inputs {
		size += 8 * (1 + len(of.Inputs[k].Shape))
		if of.Inline[k] {
			size += tensor.Align(len(of.Inputs[k].Data)) + tensor.Alignment
		}
	}
	r.memory = in.blocks.take(size + tensor.Alignment)
	place := (r.memory.at + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
	for k := range of.Inputs {
		t := &of.Inputs[k]
		i := &r.inputs[k]
		i.request, i.tensor, i.name = r, t, in.model.named(t.Name)
		if of.Inline[k] && len(t.Data) > 0 {
			i.data = place
			copy(unsafe.Slice((*byte)(at(place)), len(t.Data)), t.Data)
			place += uintptr(tensor.Align(len(t.Data)))
		} else if len(t.Data) > 0 {
			i.data = uintptr(unsafe.Pointer(&t.Data[0]))
		}
	}
	if r.keep != nil {
		r.divide()
	}
	for k := range of.Inputs {
		place += r.inputs[k].describe(place, in.shapeTensors[of.Inputs[k].Name], of.BatchSize)
	}
	r.id = place
	id := unsafe.Slice((*byte)(at(place)), len(of.ID)+1)
	id[copy(id, of.ID)] = 0
	r.handle = requests.New(r)
	r.show()
	return r
}

// take ends the handle of the request; false where another thread has done so.
func (r *request) take() bool {
	r.hide()
	return requests.Take(r.handle) != nil
}

// free ends what the library could read of the request.
func (r *request) free() {
	for k := range r.inputs {
		r.inputs[k].free()
	}
	for _, s := range r.states {
		s.free()
	}
	endTrace(r.trace)
	r.correlation.Free()
	for k := range r.parameters {
		p := &r.parameters[k]
		p.key.Free()
		p.value.Free()
		object.FreeText(p.number)
	}
	r.instance.blocks.give(r.memory)
	r.memory = block{}
	r.keep.Release()
	r.keep = nil
}

// abandon takes back a request that the library has returned with an error.
func (r *request) abandon() {
	if !r.take() {
		return
	}
	r.mu.Lock()
	r.released, r.ended = true, true
	r.mu.Unlock()
	r.free()
}

// complain writes down what a library does wrong: neso-host prints for the server's log.
func complain(what string) {
	who := "neso:"
	if hosted.Load() != nil {
		who = "neso-host:"
	}
	fmt.Fprintln(os.Stderr, who, what)
}

// misuse is what the library did that it must not.
func (l *library) misuse(format string, args ...any) *backend.Error {
	err := host.Misuse(l.name, format, args...)
	complain(err.Message)
	return err
}

// left notes that one of the ways in which the request could be answered is gone.
func (r *request) left() {
	r.mu.Lock()
	r.ways--
	r.mu.Unlock()
	r.lost()
}

// lost answers a request that the library cannot answer any more.
func (r *request) lost() {
	r.mu.Lock()
	lost := r.released && !r.ended && r.ways == 0
	r.ended = r.ended || lost
	r.mu.Unlock()
	if lost {
		err := r.instance.model.library.misuse("it released a request without a final response, and nothing is left to send one with")
		_ = r.of.Answer(&host.Answer{Err: err}, true)
	}
}

// prefix is what the texts of the peer's errors begin with.
func (r *request) prefix() string {
	if r.of.ID == "" {
		return "[request id: <id_unknown>] "
	}
	return "[request id: " + r.of.ID + "] "
}

func requestOf(h C.uintptr_t, f func(r *request) C.uintptr_t) C.uintptr_t {
	r := requests.Get(handle.Handle(h))
	if r == nil {
		return stale("the request")
	}
	return f(r)
}

// Flags of TRITONBACKEND_RequestRelease.
const (
	releaseAll   = 1
	releaseAgain = 2
)

//export TRITONBACKEND_RequestRelease
func TRITONBACKEND_RequestRelease(h C.uintptr_t, flags C.uint32_t) C.uintptr_t {
	r := requests.Get(handle.Handle(h))
	if r == nil {
		complain("a backend library released a request that it does not have: it did so twice, or never had it")
		return stale("the request")
	}
	if r.lookedAt {
		return toRead()
	}
	again := flags&releaseAgain != 0
	if again && !r.instance.iterative {
		return errorf(backend.InvalidArg,
			"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag.")
	}
	if !r.take() {
		return stale("the request")
	}
	r.mu.Lock()
	r.released = true
	if again {
		r.ended = true
	}
	r.mu.Unlock()
	r.free()
	err := r.of.Release()
	if again {
		err = r.of.Again()
	}
	r.lost()
	return result(err)
}

//export neso_asked_TRITONBACKEND_RequestId
func neso_asked_TRITONBACKEND_RequestId(h, id C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(id, r.id); return 0 })
}

//export neso_asked_TRITONBACKEND_RequestCorrelationId
func neso_asked_TRITONBACKEND_RequestCorrelationId(h, id C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if r.of.Correlation.Text != "" {
			return errorf(backend.InvalidArg, "%scorrelation ID in request is not an unsigned int", r.prefix())
		}
		put(id, r.of.Correlation.Number)
		return 0
	})
}

//export TRITONBACKEND_RequestCorrelationIdString
func TRITONBACKEND_RequestCorrelationIdString(h, id C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if r.of.Correlation.Text == "" {
			return errorf(backend.InvalidArg, "%scorrelation ID in request is not a string", r.prefix())
		}
		text(id, &r.correlation, r.of.Correlation.Text)
		return 0
	})
}

//export neso_asked_TRITONBACKEND_RequestFlags
func neso_asked_TRITONBACKEND_RequestFlags(h, flags C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(flags, uint32(r.of.Flags)); return 0 })
}

//export neso_asked_TRITONBACKEND_InferenceRequestTimeoutMicroseconds
func neso_asked_TRITONBACKEND_InferenceRequestTimeoutMicroseconds(h, timeout C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(timeout, r.of.Timeout); return 0 })
}

//export TRITONBACKEND_RequestIsCancelled
func TRITONBACKEND_RequestIsCancelled(h, cancelled C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(cancelled, r.of.Cancelled()); return 0 })
}

//export neso_asked_TRITONBACKEND_RequestParameterCount
func neso_asked_TRITONBACKEND_RequestParameterCount(h, count C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(count, uint32(len(r.parameters))); return 0 })
}

//export TRITONBACKEND_RequestParameter
func TRITONBACKEND_RequestParameter(h C.uintptr_t, index C.uint32_t, key, kind, value C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if int(index) >= len(r.parameters) {
			return errorf(backend.InvalidArg, "out of bounds index %d: request has %d parameters", index, len(r.parameters))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		p, of := &r.parameters[index], &r.of.Parameters[index]
		text(key, &p.key, of.Name)
		if of.Kind == backend.StringParameter {
			put[C.int](kind, 0)
			text(value, &p.value, of.Text())
			return 0
		}
		if p.number == 0 {
			p.number = uintptr(C.malloc(8))
		}
		put(value, p.number)
		switch of.Kind {
		case backend.BoolParameter:
			put[C.int](kind, 2)
			object.Set(p.number, of.IsTrue())
		case backend.DoubleParameter:
			put[C.int](kind, 3)
			object.Set(p.number, of.Float64())
		case backend.UintParameter: // the interface has no kind for it
			put[C.int](kind, 0)
			put(value, p.value.C(strconv.FormatUint(of.Uint64(), 10)))
		default:
			put[C.int](kind, 1)
			object.Set(p.number, of.Int64())
		}
		return 0
	})
}

//export neso_asked_TRITONBACKEND_RequestOutputCount
func neso_asked_TRITONBACKEND_RequestOutputCount(h, count C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { put(count, uint32(len(r.of.Requested))); return 0 })
}

//export neso_asked_TRITONBACKEND_RequestOutputName
func neso_asked_TRITONBACKEND_RequestOutputName(h C.uintptr_t, index C.uint32_t, name C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if int(index) >= len(r.of.Requested) {
			return errorf(backend.InvalidArg, "%sout of bounds index %d: request has %d requested outputs", r.prefix(), index,
				len(r.of.Requested))
		}
		put(name, r.instance.model.named(r.of.Requested[index]))
		return 0
	})
}

//export TRITONBACKEND_RequestOutputBufferProperties
func TRITONBACKEND_RequestOutputBufferProperties(h, name, size, kind, id C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if r.sender != nil {
			return r.preferred(name, size, kind, id)
		}
		put(kind, memoryCPU)
		put[int64](id, 0)
		return 0
	})
}

// preferred asks the program that sent the request.
func (r *request) preferred(name, size, kind, id C.uintptr_t) C.uintptr_t {
	var of *uint64
	if size != 0 {
		n := object.Read[uint64](uintptr(size))
		of = &n
	}
	m, err := r.sender.PreferOutput(object.String(uintptr(name)), of, wanted(kind, id))
	if err != nil {
		return result(err)
	}
	if of != nil {
		put(size, *of)
	}
	put(kind, C.int(m.Type))
	put(id, m.ID)
	return 0
}
