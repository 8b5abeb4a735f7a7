//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"math"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// The fields of a request that are neither data nor callbacks.

// tell writes a field of a request where the program wants it.
func tell[T any](h, to C.uintptr_t, of func(r *request) T) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		if to == 0 {
			return object.Null("the place for the value")
		}
		object.Set(uintptr(to), of(r))
		return 0
	})
}

// put changes a field of a request.
func put(h C.uintptr_t, f func(r *request)) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		f(r)
		return 0
	})
}

//export TRITONSERVER_InferenceRequestId
func TRITONSERVER_InferenceRequestId(h, id C.uintptr_t) C.uintptr_t {
	return tell(h, id, func(r *request) uintptr { return r.idText.C(r.id) })
}

//export TRITONSERVER_InferenceRequestSetId
func TRITONSERVER_InferenceRequestSetId(h, id C.uintptr_t) C.uintptr_t {
	return put(h, func(r *request) {
		r.idText.Free()
		r.id = object.String(uintptr(id))
	})
}

//export TRITONSERVER_InferenceRequestFlags
func TRITONSERVER_InferenceRequestFlags(h, flags C.uintptr_t) C.uintptr_t {
	return tell(h, flags, func(r *request) uint32 { return r.flags })
}

//export TRITONSERVER_InferenceRequestSetFlags
func TRITONSERVER_InferenceRequestSetFlags(h C.uintptr_t, flags C.uint32_t) C.uintptr_t {
	return put(h, func(r *request) { r.flags = uint32(flags) })
}

//export TRITONSERVER_InferenceRequestCorrelationId
func TRITONSERVER_InferenceRequestCorrelationId(h, id C.uintptr_t) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		if r.textual {
			return object.Errorf(backend.InvalidArg, "given request's correlation id is not an unsigned int")
		}
		object.Set(uintptr(id), r.correlation.Number)
		return 0
	})
}

//export TRITONSERVER_InferenceRequestCorrelationIdString
func TRITONSERVER_InferenceRequestCorrelationIdString(h, id C.uintptr_t) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		if !r.textual {
			return object.Errorf(backend.InvalidArg, "given request's correlation id is not a string")
		}
		object.Set(uintptr(id), r.corrText.C(r.correlation.Text))
		return 0
	})
}

//export TRITONSERVER_InferenceRequestSetCorrelationId
func TRITONSERVER_InferenceRequestSetCorrelationId(h C.uintptr_t, id C.uint64_t) C.uintptr_t {
	return put(h, func(r *request) {
		r.corrText.Free()
		r.correlation, r.textual = backend.CorrelationID{Number: uint64(id)}, false
	})
}

//export TRITONSERVER_InferenceRequestSetCorrelationIdString
func TRITONSERVER_InferenceRequestSetCorrelationIdString(h, id C.uintptr_t) C.uintptr_t {
	text := object.String(uintptr(id))
	if len(text) > 128 {
		return C.uintptr_t(object.Errorf(backend.Unsupported, "string correlation ID cannot be longer than 128 characters"))
	}
	return put(h, func(r *request) {
		r.corrText.Free()
		r.correlation, r.textual = backend.CorrelationID{Text: text}, true
	})
}

//export TRITONSERVER_InferenceRequestCancel
func TRITONSERVER_InferenceRequestCancel(h C.uintptr_t) C.uintptr_t {
	var f *flight
	err := look(h, func(r *request) handle.Handle {
		if f = r.flight; f == nil {
			return object.Errorf(backend.Internal, "It is not possible to cancel an inference request before calling TRITONSERVER_InferAsync.")
		}
		return 0
	})
	if f != nil {
		f.ctx.cancel()
	}
	return err
}

//export TRITONSERVER_InferenceRequestIsCancelled
func TRITONSERVER_InferenceRequestIsCancelled(h, is C.uintptr_t) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		switch {
		case is == 0:
			return object.Null("the place for the answer")
		case r.flight == nil:
			return object.Errorf(backend.Internal, "It is not possible to query cancellation status before calling TRITONSERVER_InferAsync.")
		}
		object.Set(uintptr(is), C.bool(r.flight.ctx.Err() != nil))
		return 0
	})
}

//export TRITONSERVER_InferenceRequestPriority
func TRITONSERVER_InferenceRequestPriority(h, priority C.uintptr_t) C.uintptr_t {
	return look(h, func(r *request) handle.Handle {
		if r.priority > math.MaxUint32 {
			return object.Errorf(backend.InvalidArg,
				"request priority overflows uint32_t, use TRITONSERVER_InferenceRequestPriorityUInt64, priority=%d", r.priority)
		}
		object.Set(uintptr(priority), uint32(r.priority))
		return 0
	})
}

//export TRITONSERVER_InferenceRequestPriorityUInt64
func TRITONSERVER_InferenceRequestPriorityUInt64(h, priority C.uintptr_t) C.uintptr_t {
	return tell(h, priority, func(r *request) uint64 { return r.priority })
}

//export TRITONSERVER_InferenceRequestSetPriority
func TRITONSERVER_InferenceRequestSetPriority(h C.uintptr_t, priority C.uint32_t) C.uintptr_t {
	return setPriority(h, uint64(priority))
}

// setPriority sets a priority that the model has; with any other the request has the
// model's default one, 0 where it has no priorities.
func setPriority(h C.uintptr_t, priority uint64) C.uintptr_t {
	return put(h, func(r *request) {
		f, err := r.server.facts(r.model, r.version)
		if err == nil && (priority == 0 || priority > f.Batching.Levels) {
			priority = f.Batching.Default
		}
		r.priority = priority
	})
}

//export TRITONSERVER_InferenceRequestSetPriorityUInt64
func TRITONSERVER_InferenceRequestSetPriorityUInt64(h C.uintptr_t, priority C.uint64_t) C.uintptr_t {
	return setPriority(h, uint64(priority))
}

//export TRITONSERVER_InferenceRequestTimeoutMicroseconds
func TRITONSERVER_InferenceRequestTimeoutMicroseconds(h, timeout C.uintptr_t) C.uintptr_t {
	return tell(h, timeout, func(r *request) uint64 { return r.timeout })
}

//export TRITONSERVER_InferenceRequestSetTimeoutMicroseconds
func TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(h C.uintptr_t, timeout C.uint64_t) C.uintptr_t {
	return put(h, func(r *request) { r.timeout = uint64(timeout) })
}

//export TRITONSERVER_InferenceRequestAddRequestedOutput
func TRITONSERVER_InferenceRequestAddRequestedOutput(h, name C.uintptr_t) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		if name == 0 {
			return object.Null("the output's name")
		}
		if n := object.String(uintptr(name)); !slices.Contains(r.outputs, n) {
			r.outputs = append(r.outputs, n)
		}
		return 0
	})
}

//export TRITONSERVER_InferenceRequestRemoveRequestedOutput
func TRITONSERVER_InferenceRequestRemoveRequestedOutput(h, name C.uintptr_t) C.uintptr_t {
	return put(h, func(r *request) {
		n := object.String(uintptr(name))
		r.outputs = slices.DeleteFunc(r.outputs, func(o string) bool { return o == n })
	})
}

//export TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs
func TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(h C.uintptr_t) C.uintptr_t {
	return put(h, func(r *request) { r.outputs = r.outputs[:0] })
}

// parameter sets a parameter, in the place of one of the same name.
func parameter(h, key C.uintptr_t, made func(name string) backend.Parameter) C.uintptr_t {
	return change(h, func(r *request) handle.Handle {
		if key == 0 {
			return object.Null("the parameter's name")
		}
		p := made(object.String(uintptr(key)))
		if i := slices.IndexFunc(r.parameters, func(o backend.Parameter) bool { return o.Name == p.Name }); i >= 0 {
			r.parameters[i] = p
		} else {
			r.parameters = append(r.parameters, p)
		}
		return 0
	})
}

//export TRITONSERVER_InferenceRequestSetStringParameter
func TRITONSERVER_InferenceRequestSetStringParameter(h, key, value C.uintptr_t) C.uintptr_t {
	return parameter(h, key, func(name string) backend.Parameter { return backend.String(name, object.String(uintptr(value))) })
}

//export TRITONSERVER_InferenceRequestSetIntParameter
func TRITONSERVER_InferenceRequestSetIntParameter(h, key C.uintptr_t, value C.int64_t) C.uintptr_t {
	return parameter(h, key, func(name string) backend.Parameter { return backend.Int(name, int64(value)) })
}

//export TRITONSERVER_InferenceRequestSetBoolParameter
func TRITONSERVER_InferenceRequestSetBoolParameter(h, key C.uintptr_t, value C.bool) C.uintptr_t {
	return parameter(h, key, func(name string) backend.Parameter { return backend.Bool(name, bool(value)) })
}

//export TRITONSERVER_InferenceRequestSetDoubleParameter
func TRITONSERVER_InferenceRequestSetDoubleParameter(h, key C.uintptr_t, value C.double) C.uintptr_t {
	return parameter(h, key, func(name string) backend.Parameter { return backend.Double(name, float64(value)) })
}
