package onnxruntime

import (
	"context"
	"testing"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// BenchmarkCall is what one call into C costs: a function that does next to
// nothing.
func BenchmarkCall(b *testing.B) {
	d, _ := open(b, nil)
	cfg := configOf(b, "add_sub", 0, backend.IO{})
	e, err := d.environment(&cfg)
	if err != nil {
		b.Fatal(err)
	}
	var allocator uintptr
	b.ReportAllocs()
	for b.Loop() {
		if err := e.call(fnGetAllocatorWithDefaultOptions, uintptr(unsafe.Pointer(&allocator))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExecute is one request through an instance, the tensors of two inputs
// and two outputs included.
func BenchmarkExecute(b *testing.B) {
	d, _ := open(b, nil)
	fp := func(name string) backend.IO { return port(name, tensor.FP32, 16) }
	in := start(b, d, configOf(b, "add_sub", 8, fp("INPUT0"), fp("INPUT1"), backend.IO{}, fp("OUTPUT0"), fp("OUTPUT1")))
	inputs := []tensor.Tensor{
		floats("INPUT0", tensor.Shape{1, 16}, make([]float32, 16)...),
		floats("INPUT1", tensor.Shape{1, 16}, make([]float32, 16)...),
	}
	outputs := []string{"OUTPUT0", "OUTPUT1"}
	b.ReportAllocs()
	for b.Loop() {
		r := &backend.Request{BatchSize: 1, Requested: outputs, Inputs: inputs, Responder: release{}}
		if err := in.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// release is a client that only drops what it is given.
type release struct{}

func (release) Respond(r *backend.Response, _ bool) error { r.Release(); return nil }
func (release) Cancelled() bool                           { return false }
