package onnxruntime

import (
	"log/slog"
	"runtime"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// Runtime is an opened library for a backend that runs graphs itself, step by step, over
// memory that stays from one step to the next.
type Runtime struct{ env *environment }

// OpenRuntime readies a library.
func OpenRuntime(lib *library.Library, log *slog.Logger) (*Runtime, error) {
	silence()
	e, err := newEnvironment(lib, &settings{}, log)
	if err != nil {
		return nil, err
	}
	return &Runtime{e}, nil
}

// Close ends its use. Graphs that are open keep what they need.
func (r *Runtime) Close() { r.env.drop() }

// GraphOptions are what a graph is loaded with.
type GraphOptions struct {
	Filename string // within the version directory
	Threads  int    // that one step has
	Arena    *bool  // whether freed memory is kept for the next step; nil: the library's choice
	Pattern  *bool  // whether steps of one shape plan their memory together; nil: likewise
}

// GraphTensor is an input or output of a graph.
type GraphTensor struct {
	Name     string
	Datatype tensor.Datatype // Invalid for what is no tensor, or of a type that the protocol lacks
	Shape    tensor.Shape    // -1 for a dimension of any size
}

// Graph is a model on the processors. It is of one goroutine.
type Graph struct {
	Inputs, Outputs []GraphTensor
	session         *session
	names           [2]cArray // of inputs and outputs
}

// Value is a tensor over memory of the caller's, or over its own.
type Value struct {
	handle uintptr
	memory uintptr
	size   int
}

// Bytes is the memory of a value that the graph has allocated, until it is freed.
func (v *Value) Bytes() []byte { return library.Bytes(v.memory, v.size) }

// OpenGraph loads the graph of a version. The file is checked as every model of this backend.
func (r *Runtime) OpenGraph(cfg *backend.Config, o GraphOptions) (*Graph, error) {
	own := *cfg
	own.Filename = o.Filename
	s, err := r.env.newSession(&own, &sessionOptions{
		level: optimizeAll, intra: max(1, o.Threads), memArena: o.Arena, memPattern: o.Pattern, kind: "KIND_CPU",
	})
	if err != nil {
		return nil, err
	}
	g := &Graph{session: s}
	for i, list := range [][]tensorInfo{slices.Concat(s.inputs, s.initializers), s.outputs} {
		var names []string
		for _, t := range list {
			names = append(names, t.name)
			shown := GraphTensor{Name: t.name, Datatype: t.datatype, Shape: t.shape}
			if t.kind != kindTensor || t.unranked {
				shown.Datatype = tensor.Invalid
			}
			if i == 0 {
				g.Inputs = append(g.Inputs, shown)
			} else {
				g.Outputs = append(g.Outputs, shown)
			}
		}
		g.names[i] = newCArray(names)
	}
	return g, nil
}

// Close frees the graph; its values are freed before.
func (g *Graph) Close() {
	for i := range g.names {
		g.names[i].free()
	}
	g.session.Drop()
}

// Allocate makes a value with memory of its own, which holds nothing yet.
func (g *Graph) Allocate(d tensor.Datatype, dims ...int64) (*Value, error) {
	e := g.session.env
	v := &Value{}
	var handle, memory uintptr
	if err := e.call(fnCreateTensorAsOrtValue, e.allocator, uintptr(unsafe.Pointer(unsafe.SliceData(dims))), uintptr(len(dims)),
		uintptr(elementTypes[d]), uintptr(unsafe.Pointer(&handle))); err != nil {
		return nil, err
	}
	v.handle = handle
	if err := e.call(fnGetTensorMutableData, handle, uintptr(unsafe.Pointer(&memory))); err != nil {
		g.Free(v)
		return nil, err
	}
	v.memory, v.size = memory, d.Size()
	for _, n := range dims {
		v.size *= int(n)
	}
	return v, nil
}

// View makes a value over data, which has to be pinned, or out of Go's heap, and to stay until
// the value is freed.
func (g *Graph) View(data []byte, d tensor.Datatype, dims ...int64) (*Value, error) {
	e := g.session.env
	var handle uintptr
	err := e.call(fnCreateTensorWithData, e.memory, uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(unsafe.SliceData(dims))), uintptr(len(dims)), uintptr(elementTypes[d]), uintptr(unsafe.Pointer(&handle)))
	if err != nil {
		return nil, err
	}
	return &Value{handle: handle}, nil
}

// Free ends a value; nil is none.
func (g *Graph) Free(v *Value) {
	if v != nil {
		g.session.env.release(fnReleaseValue, v.handle)
		v.handle, v.memory, v.size = 0, 0, 0
	}
}

// Run computes the outputs from the inputs, which are in the order of Inputs and Outputs. An
// output may lie where an input does, if the graph is made for it.
func (g *Graph) Run(inputs, outputs []*Value) error {
	if len(inputs) != len(g.Inputs) || len(outputs) != len(g.Outputs) {
		return backend.Errorf(backend.Internal, "the graph has %d inputs and %d outputs, got %d and %d", len(g.Inputs), len(g.Outputs),
			len(inputs), len(outputs))
	}
	handles := make([]uintptr, 0, len(inputs)+len(outputs))
	for _, list := range [][]*Value{inputs, outputs} {
		for _, v := range list {
			handles = append(handles, v.handle)
		}
	}
	e := g.session.env
	err := e.call(fnRun, g.session.handle, 0, uintptr(unsafe.Pointer(unsafe.SliceData(g.names[0].table))),
		uintptr(unsafe.Pointer(&handles[0])), uintptr(len(inputs)), uintptr(unsafe.Pointer(unsafe.SliceData(g.names[1].table))),
		uintptr(len(outputs)), uintptr(unsafe.Pointer(&handles[len(inputs)])))
	runtime.KeepAlive(g)
	return err
}
