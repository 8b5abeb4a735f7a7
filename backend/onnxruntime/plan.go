package onnxruntime

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// plan is what all instances of a version know of its tensors: the names for C,
// and from what the shape of an output follows.
type plan struct {
	inputs  []plannedInput
	outputs []plannedOutput
	names   []string // of the outputs, in their order
	texts   cArray   // names of inputs, then of outputs, for C
	batch   bool
}

type plannedInput struct {
	name     string
	datatype tensor.Datatype
	element  uintptr
	required bool // the model has no default for it
	scalar   bool // the model wants no dimensions, whatever the configuration says
	shape    tensor.Shape
}

type plannedOutput struct {
	name     string
	datatype tensor.Datatype
	element  uintptr
	dims     []dimension
	// known: the shape follows from the inputs, so that the memory can be given
	// beforehand. A run that proves otherwise clears it.
	known atomic.Bool
	// scalar is the shape that the configuration gives to a tensor without
	// dimensions.
	scalar tensor.Shape
}

// dimension of an output: fixed, or that of an input.
type dimension struct {
	size       int64 // -1: take it from an input
	input, dim int
}

func newPlan(cfg *backend.Config, s *session) *plan {
	p := &plan{batch: cfg.MaxBatchSize > 0}
	var names []string
	for _, in := range slices.Concat(cfg.Inputs, cfg.BatchInputs) {
		t := s.input(in.Name)
		if t == nil {
			continue // refused by validate
		}
		p.inputs = append(p.inputs, plannedInput{name: in.Name, required: slices.ContainsFunc(s.inputs, func(i tensorInfo) bool {
			return i.name == in.Name
		}), datatype: in.Datatype, element: uintptr(t.element), scalar: len(t.shape) == 0, shape: t.shape})
		names = append(names, in.Name)
	}
	p.outputs = make([]plannedOutput, len(cfg.Outputs))
	for i, out := range cfg.Outputs {
		at := slices.IndexFunc(s.outputs, func(t tensorInfo) bool { return t.name == out.Name })
		o := &p.outputs[i]
		o.name, o.datatype, o.element = out.Name, out.Datatype, uintptr(s.outputs[at].element)
		p.predict(o, &s.outputs[at], s)
		if !p.batch && len(s.outputs[at].shape) == 0 && len(out.Dims) > 0 && !out.Dims.HasWildcard() {
			o.scalar = out.Dims
		}
		p.names = append(p.names, out.Name)
		names = append(names, out.Name)
	}
	p.texts = newCArray(names)
	// The names are C's as long as anything of the version is: they go with the
	// plan, and the pins with them.
	runtime.AddCleanup(p, func(texts cArray) { texts.free() }, p.texts)
	return p
}

func (s *session) input(name string) *tensorInfo {
	for _, list := range [][]tensorInfo{s.inputs, s.initializers} {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// predict finds out from what the shape of an output follows: fixed dimensions,
// the batch, and dimensions that have the name of an input's.
func (p *plan) predict(o *plannedOutput, t *tensorInfo, s *session) {
	if s.input(o.name) != nil {
		return // handed through: ONNX Runtime returns the input and writes nothing
	}
	if o.datatype == tensor.Bytes || t.unranked || len(t.shape) == 0 && s.env.minor < hasShapeSince {
		return
	}
	for i, size := range t.shape {
		d := dimension{size: size, input: -1}
		if size == -1 {
			d.input, d.dim = p.symbol(t.symbols[i], s)
			if d.input < 0 && i == 0 && p.batch {
				d.input, d.dim = p.batchAxis()
			}
			if d.input < 0 {
				return
			}
		}
		o.dims = append(o.dims, d)
	}
	o.known.Store(true)
}

// symbol finds an input dimension with the name.
func (p *plan) symbol(name string, s *session) (input, dim int) {
	if name == "" {
		return -1, 0
	}
	for i := range p.inputs {
		t := s.input(p.inputs[i].name)
		if at := slices.Index(t.symbols, name); at >= 0 {
			return i, at
		}
	}
	return -1, 0
}

// batchAxis finds an input whose first dimension is the batch.
func (p *plan) batchAxis() (input, dim int) {
	for i := range p.inputs {
		if len(p.inputs[i].shape) > 0 && p.inputs[i].shape[0] == -1 {
			return i, 0
		}
	}
	return -1, 0
}
