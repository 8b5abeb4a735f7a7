//go:build cgo

package capi

// #include <stdint.h>
// #include "callbacks.h"
import "C"

import (
	"math"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// response is a TRITONSERVER_InferenceResponse. It has all that it says in memory of
// C or of the program's allocator, and nothing of the server.
type response struct {
	server  *server
	model   string
	version int64
	id      string
	failure handle.Handle // a TRITONSERVER_Error, 0 for a success

	allocator  *allocator
	outputs    []output
	few        [2]output // what outputs lie in, mostly
	texts      object.Block
	modelText  object.Text
	idText     object.Text
	parameters []responseParameter
	labels     []uintptr // made when they are asked for
}

// output is one output, in memory of the program's.
type output struct {
	name       string
	datatype   tensor.Datatype
	dims       int
	nameText   uintptr
	shape      uintptr
	size       int
	given      bool // the allocator has given memory
	at         C.allocation
	attributes handle.Handle
}

type responseParameter struct {
	kind        object.ParameterType
	name, value uintptr
}

// labelsLock guards the labels of all responses: they are asked for rarely.
var labelsLock sync.Mutex

var responses = handle.NewTable[response](handle.Response)

// response makes a response of what the server has answered, which it borrows.
func (f *flight) response(from *backend.Response) handle.Handle {
	r := &response{server: f.server, model: f.model, version: f.version, id: f.id, allocator: f.allocator}
	if f.begun.Load() > 0 { // the backend has asked for memory
		f.begun.Add(-1)
	} else {
		f.begin()
	}
	err := from.Err
	if err == nil {
		err = r.fill(from.Outputs, f)
	}
	if err == nil && f.follow != nil {
		f.follow.Outputs(r.placed(from.Outputs))
	}
	if err != nil {
		r.releaseOutputs()
		r.failure = object.FromError(err)
	}
	for _, p := range from.Parameters {
		r.parameters = append(r.parameters, newParameter(p))
	}
	return responses.New(r)
}

// begin tells the allocator of a response. What it says is no fault of the response, as
// with the peer.
func (f *flight) begin() {
	if err := f.allocator.begin(f.allocatorUser); err != nil {
		processLog().Logger().Error("response allocation start failed", "error", err.Message, "model", f.model, "request_id", f.id)
	}
}

// fill copies the outputs into memory of the program's allocator, unless they lie there.
func (r *response) fill(outputs []tensor.Tensor, f *flight) *backend.Error {
	size := 0
	for i := range outputs {
		size += 8*len(outputs[i].Shape) + len(outputs[i].Name) + 1
	}
	r.texts = object.NewBlock(size)
	r.outputs = r.few[:0]
	for i := range outputs { // numbers first, since those must be aligned
		t := &outputs[i]
		r.outputs = append(r.outputs, output{name: t.Name, datatype: t.Datatype, dims: len(t.Shape), shape: r.texts.Int64s(t.Shape)})
	}
	for i := range outputs {
		o := &r.outputs[i]
		o.nameText = r.texts.Text(o.name)
		if f.takes(&outputs[i], o) {
			continue
		}
		data := outputs[i].Data
		if err := r.allocator.allocate(o, o.nameText, len(data), backend.Memory{}, f.allocatorUser); err != nil {
			return err
		}
		if object.MemoryType(o.at._type) == object.GPU {
			return backend.Errorf(backend.Unsupported, "the response allocator gave memory of a GPU for output '%s', which lies elsewhere", o.name)
		}
		if len(data) > 0 {
			to, _ := object.Bytes(uintptr(o.at.buffer), uint64(len(data)))
			copy(to, data)
		}
	}
	return nil
}

// placed are the outputs where the program has them now.
func (r *response) placed(outputs []tensor.Tensor) []tensor.Tensor {
	list := slices.Clone(outputs)
	for i := range list {
		list[i].Data, _ = object.Bytes(uintptr(r.outputs[i].at.buffer), uint64(r.outputs[i].size))
	}
	return list
}

func (r *response) releaseOutputs() {
	for i := range r.outputs {
		r.allocator.release(&r.outputs[i])
	}
	r.outputs = nil
}

func newParameter(p backend.Parameter) responseParameter {
	made := responseParameter{name: object.NewText(p.Name)}
	switch p.Kind {
	case backend.StringParameter:
		made.kind, made.value = object.StringParameter, object.NewText(p.Text())
	case backend.BoolParameter:
		made.kind, made.value = object.BoolParameter, object.NewText(string([]byte{byte(p.Uint64())}))
	case backend.DoubleParameter:
		made.kind, made.value = object.DoubleParameter, object.NewNumber(math.Float64bits(p.Float64()))
	default:
		made.kind, made.value = object.IntParameter, object.NewNumber(p.Uint64())
	}
	return made
}

//export TRITONSERVER_InferenceResponseDelete
func TRITONSERVER_InferenceResponseDelete(h C.uintptr_t) C.uintptr_t {
	r := responses.Take(handle.Handle(h))
	if r == nil {
		return C.uintptr_t(object.Stale("inference response"))
	}
	r.releaseOutputs()
	r.texts.Free()
	r.modelText.Free()
	r.idText.Free()
	for _, p := range r.parameters {
		object.FreeText(p.name)
		object.FreeText(p.value)
	}
	for _, l := range r.labels {
		object.FreeText(l)
	}
	if r.failure != 0 {
		object.DeleteError(r.failure)
	}
	return 0
}

// read calls f with the response of a handle. What f returns is the error.
func read(h C.uintptr_t, f func(r *response) handle.Handle) C.uintptr_t {
	r := responses.Get(handle.Handle(h))
	if r == nil {
		return C.uintptr_t(object.Stale("inference response"))
	}
	return C.uintptr_t(f(r))
}

//export TRITONSERVER_InferenceResponseError
func TRITONSERVER_InferenceResponseError(h C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle { return r.failure })
}

//export TRITONSERVER_InferenceResponseModel
func TRITONSERVER_InferenceResponseModel(h, name, version C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		object.Set(uintptr(name), r.modelText.C(r.model))
		object.Set(uintptr(version), r.version)
		return 0
	})
}

//export TRITONSERVER_InferenceResponseId
func TRITONSERVER_InferenceResponseId(h, id C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		object.Set(uintptr(id), r.idText.C(r.id))
		return 0
	})
}

//export TRITONSERVER_InferenceResponseParameterCount
func TRITONSERVER_InferenceResponseParameterCount(h, count C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		object.Set(uintptr(count), uint32(len(r.parameters)))
		return 0
	})
}

//export TRITONSERVER_InferenceResponseParameter
func TRITONSERVER_InferenceResponseParameter(h C.uintptr_t, index C.uint32_t, name, kind, value C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		if int(index) >= len(r.parameters) {
			return object.Errorf(backend.InvalidArg, "out of bounds index %d: response has %d parameters", uint32(index), len(r.parameters))
		}
		p := &r.parameters[index]
		object.Set(uintptr(name), p.name)
		object.Set(uintptr(kind), int32(p.kind))
		object.Set(uintptr(value), p.value)
		return 0
	})
}

//export TRITONSERVER_InferenceResponseOutputCount
func TRITONSERVER_InferenceResponseOutputCount(h, count C.uintptr_t) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		object.Set(uintptr(count), uint32(len(r.outputs)))
		return 0
	})
}

func outOfBounds(index C.uint32_t, r *response) handle.Handle {
	return object.Errorf(backend.InvalidArg, "out of bounds index %d: response has %d outputs", uint32(index), len(r.outputs))
}

//export TRITONSERVER_InferenceResponseOutput
func TRITONSERVER_InferenceResponseOutput(h C.uintptr_t, index C.uint32_t, name, datatype, shape, dims, base, size, kind, id,
	userp C.uintptr_t,
) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		if int(index) >= len(r.outputs) {
			return outOfBounds(index, r)
		}
		o := &r.outputs[index]
		object.Set(uintptr(name), o.nameText)
		object.Set(uintptr(datatype), int32(o.datatype))
		object.Set(uintptr(shape), o.shape)
		object.Set(uintptr(dims), uint64(o.dims))
		object.Set(uintptr(base), uintptr(o.at.buffer))
		object.Set(uintptr(size), uint64(o.size))
		object.Set(uintptr(kind), int32(o.at._type))
		object.Set(uintptr(id), int64(o.at.id))
		object.Set(uintptr(userp), uintptr(o.at.userp))
		return 0
	})
}

//export TRITONSERVER_InferenceResponseOutputClassificationLabel
func TRITONSERVER_InferenceResponseOutputClassificationLabel(h C.uintptr_t, index C.uint32_t, class C.size_t,
	label C.uintptr_t,
) C.uintptr_t {
	return read(h, func(r *response) handle.Handle {
		if int(index) >= len(r.outputs) {
			return outOfBounds(index, r)
		}
		text := uintptr(0)
		if labels := r.server.Labels(r.model, -1, r.outputs[index].name); uint64(class) < uint64(len(labels)) {
			text = object.NewText(labels[class])
			labelsLock.Lock()
			r.labels = append(r.labels, text)
			labelsLock.Unlock()
		}
		object.Set(uintptr(label), text)
		return 0
	})
}
