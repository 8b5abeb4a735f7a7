package onnxruntime

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// instance runs one batch at a time.
type instance struct {
	session *session
	plan    *plan
	memory  tensor.Allocator
	options uintptr // OrtRunOptions
	running running
	watch   *watch
	pins    runtime.Pinner // of the tensors' memory, for one run
	scratch
}

// scratch is what a run needs, allocated once and used again. C sees it during a
// call only; what it keeps longer, the tensors' memory, is pinned.
type scratch struct {
	inputNames, inputs   []uintptr // names and values that are passed
	outputNames, outputs []uintptr
	given                []*tensor.Tensor // by place in the plan; nil for an optional one that is missing
	picked               []int            // places in the plan of the outputs that are asked for
	buffers              []*tensor.Buffer // of the outputs whose memory is ours, by place in picked
	shapes               []tensor.Shape   // likewise
	dims                 []int64
	nothing              []byte     // where empty tensors lie
	args                 [8]uintptr // of the next call
	value                uintptr    // that a call returns
	asked                []string   // what picked was made from; nil for requests that differ
}

func newInstance(m *model, s *session, o *sessionOptions) (*instance, error) {
	p := m.plan
	in := &instance{session: s, plan: p, memory: m.driver.host.Allocator(), watch: &m.driver.watch, scratch: scratch{
		inputNames: make([]uintptr, 0, len(p.inputs)), inputs: make([]uintptr, 0, len(p.inputs)),
		outputNames: make([]uintptr, 0, len(p.outputs)), outputs: make([]uintptr, 0, len(p.outputs)),
		given: make([]*tensor.Tensor, len(p.inputs)), buffers: make([]*tensor.Buffer, len(p.outputs)), shapes: make([]tensor.Shape, len(p.outputs)),
		dims: make([]int64, 16), nothing: make([]byte, tensor.Alignment),
	}}
	if err := s.env.call(fnCreateRunOptions, uintptr(unsafe.Pointer(&in.options))); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if o.shrink != "" {
		name, value := library.CString(paramShrink), library.CString(o.shrink)
		if err := s.env.call(fnAddRunConfigEntry, in.options, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(value))); err != nil {
			return nil, errors.Join(err, in.Close())
		}
	}
	in.watch.add(in)
	return in, nil
}

// Close implements backend.Instance.
func (in *instance) Close() error {
	in.watch.remove(in)
	in.session.env.release(fnReleaseRunOptions, in.options)
	in.session.Drop()
	return nil
}

// Execute implements backend.Instance. A batch that fails is tried again
// request by request, so that one bad request does not fail the others.
func (in *instance) Execute(ctx context.Context, b *backend.Batch) error {
	outputs, err := in.run(ctx, b, b.Requests, b.Inputs)
	if err == nil {
		return in.answer(b, outputs)
	}
	if len(b.Requests) == 1 || err == errTerminated || !in.separable(b) { //nolint:errorlint // made here, never wrapped
		return in.explain(err)
	}
	for _, r := range b.Requests {
		one := []*backend.Request{r}
		outputs, err := in.run(ctx, b, one, r.Inputs)
		if err != nil {
			_ = r.Respond(&backend.Response{Err: backend.AsError(in.explain(err))}, true) // a cancelled request needs nothing more
			continue
		}
		_ = r.Respond(&backend.Response{Outputs: outputs}, true)
	}
	return nil
}

// separable reports whether the requests of a batch can run one by one: not
// with tensors that the server made from the batch.
func (in *instance) separable(b *backend.Batch) bool {
	return len(b.Scattered) == 0 && len(b.Inputs) == len(b.Requests[0].Inputs) && len(b.Inputs) > 0 && len(b.Inputs[0].Shape) == len(b.Requests[0].Inputs[0].Shape)
}

func (in *instance) explain(err error) error {
	if _, ok := errors.AsType[*runtimeError](err); ok {
		return backend.Errorf(backend.Internal, "%v%s", err, library.MemoryHint(err.Error()))
	}
	return err
}

func (in *instance) answer(b *backend.Batch, outputs []tensor.Tensor) error {
	if len(b.Requests) == 1 && len(b.Scattered) == 0 {
		_ = b.Requests[0].Respond(&backend.Response{Outputs: outputs}, true) // a cancelled request needs nothing more
		return nil
	}
	return b.Scatter(outputs)
}

// run runs the model on the inputs of requests.
func (in *instance) run(ctx context.Context, b *backend.Batch, requests []*backend.Request, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	defer in.letGo()
	in.pick(requests)
	if len(in.picked) == 0 {
		return nil, nil // nobody wants anything
	}
	if err := in.setInputs(inputs); err != nil {
		return nil, err
	}
	retried := false
	for {
		if err := in.setOutputs(); err != nil {
			return nil, err
		}
		b.InputEnd = backend.Now()
		in.watch.begin(ctx, in, requests)
		err := in.call()
		terminated := in.end()
		b.OutputStart = backend.Now()
		if err == nil {
			return in.takeOutputs()
		}
		if terminated {
			return nil, errTerminated
		}
		if retried || !in.mispredicted(err) {
			return nil, err
		}
		retried = true
	}
}

// errTerminated is the answer to requests that nobody waits for.
var errTerminated = backend.Errorf(backend.Cancelled, "the request was cancelled while the model ran")

func (in *instance) call() error {
	in.args = [...]uintptr{
		in.session.handle, in.options,
		uintptr(unsafe.Pointer(unsafe.SliceData(in.inputNames))), uintptr(unsafe.Pointer(unsafe.SliceData(in.inputs))), uintptr(len(in.inputs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(in.outputNames))), uintptr(len(in.outputNames)), uintptr(unsafe.Pointer(unsafe.SliceData(in.outputs))),
	}
	return in.invoke(fnRun, 8)
}

// invoke calls a function with the first n of args. They point to memory of the
// instance, which is allocated and stays where it is, or to what is pinned.
func (in *instance) invoke(place, n int) error {
	e := in.session.env
	status := e.table[place].CallWith(in.args[:n])
	runtime.KeepAlive(in)
	if status != 0 {
		return e.failure(status)
	}
	return nil
}

// free releases a value.
func (in *instance) free(value uintptr) {
	if value != 0 {
		in.args[0] = value
		in.session.env.table[fnReleaseValue].CallWith(in.args[:1])
	}
}

// mispredicted reports whether a run failed because an output has another shape
// than the names of the dimensions promise. From then on ONNX Runtime says how
// large the outputs are.
func (in *instance) mispredicted(err error) bool {
	if !strings.Contains(err.Error(), "shape") {
		return false
	}
	any := false
	for _, i := range in.picked {
		any = in.plan.outputs[i].known.Swap(false) || any
	}
	in.dropOutputs()
	return any
}

// pick notes which outputs the requests want together.
func (in *instance) pick(requests []*backend.Request) {
	same := len(in.asked) > 0
	for _, r := range requests {
		same = same && slices.Equal(r.Requested, in.asked)
	}
	if same {
		return
	}
	in.picked = in.picked[:0]
	for i := range in.plan.outputs {
		for _, r := range requests {
			if r.Wants(in.plan.outputs[i].name) {
				in.picked = append(in.picked, i)
				break
			}
		}
	}
	in.asked = in.asked[:0]
	if len(requests) == 1 {
		in.asked = append(in.asked, requests[0].Requested...)
	}
}

// setInputs makes a view of each input's memory.
func (in *instance) setInputs(inputs []tensor.Tensor) error {
	p := in.plan
	for at := range inputs {
		t := &inputs[at]
		i := at
		if i >= len(p.inputs) || p.inputs[i].name != t.Name {
			if i = p.find(t.Name); i < 0 {
				return backend.Errorf(backend.Internal, "the model has no input '%s'", t.Name)
			}
		}
		in.given[i] = t
		shape := t.Shape
		if p.inputs[i].scalar {
			shape = nil
		}
		value, err := in.view(t.Data, shape, p.inputs[i].datatype, p.inputs[i].element)
		if err != nil {
			return err
		}
		in.inputNames = append(in.inputNames, p.texts.address(i))
		in.inputs = append(in.inputs, value)
	}
	if len(inputs) == len(p.inputs) {
		return nil
	}
	for i := range p.inputs {
		if p.inputs[i].required && in.given[i] == nil {
			return backend.Errorf(backend.InvalidArg, "input '%s' is missing: the configuration says optional, the model has no default for it", p.inputs[i].name)
		}
	}
	return nil
}

func (p *plan) find(name string) int {
	for i := range p.inputs {
		if p.inputs[i].name == name {
			return i
		}
	}
	return -1
}

// view makes a tensor over data, or, for strings, a copy of it.
func (in *instance) view(data []byte, shape tensor.Shape, d tensor.Datatype, element uintptr) (uintptr, error) {
	e := in.session.env
	if len(shape) > len(in.dims) {
		in.dims = make([]int64, len(shape))
	}
	copy(in.dims, shape)
	if d == tensor.Bytes {
		var value uintptr
		if err := e.call(fnCreateTensorAsOrtValue, e.allocator, uintptr(unsafe.Pointer(&in.dims[0])), uintptr(len(shape)), element, uintptr(unsafe.Pointer(&value))); err != nil {
			return 0, err
		}
		elements, _ := shape.Elements()
		if err := e.setStrings(value, data, int(elements)); err != nil {
			e.release(fnReleaseValue, value)
			return 0, err
		}
		return value, nil
	}
	start := unsafe.SliceData(data)
	if len(data) == 0 {
		start = &in.nothing[0]
	}
	in.pins.Pin(start)
	in.value = 0
	in.args = [8]uintptr{
		e.memory, uintptr(unsafe.Pointer(start)), uintptr(len(data)), uintptr(unsafe.Pointer(&in.dims[0])), uintptr(len(shape)), element,
		uintptr(unsafe.Pointer(&in.value)),
	}
	err := in.invoke(fnCreateTensorWithData, 7)
	return in.value, err
}

// setOutputs gives memory to the outputs whose shape is known beforehand.
func (in *instance) setOutputs() error {
	p := in.plan
	in.outputNames, in.outputs = in.outputNames[:0], in.outputs[:0]
	for at, i := range in.picked {
		o := &p.outputs[i]
		in.outputNames = append(in.outputNames, p.texts.address(len(p.inputs)+i))
		in.outputs = append(in.outputs, 0)
		in.buffers[at], in.shapes[at] = nil, nil
		shape, ok := in.shape(o)
		if !ok {
			continue
		}
		size, err := tensor.ByteSize(o.datatype, shape)
		if err != nil {
			continue // ONNX Runtime finds its own words
		}
		b, err := in.memory.Allocate(int(size))
		if err != nil {
			return err
		}
		in.buffers[at], in.shapes[at] = b, shape
		if in.outputs[at], err = in.view(b.Bytes(), shape, o.datatype, o.element); err != nil {
			return err
		}
	}
	return nil
}

// shape predicts that of an output.
func (in *instance) shape(o *plannedOutput) (tensor.Shape, bool) {
	if !o.known.Load() {
		return nil, false
	}
	shape := make(tensor.Shape, len(o.dims))
	for i, d := range o.dims {
		shape[i] = d.size
		if d.size == -1 {
			t := in.given[d.input]
			if t == nil || d.dim >= len(t.Shape) {
				return nil, false
			}
			shape[i] = t.Shape[d.dim]
		}
	}
	return shape, true
}

// takeOutputs makes tensors of what the run left, each with a reference.
func (in *instance) takeOutputs() (all []tensor.Tensor, err error) {
	all = make([]tensor.Tensor, 0, len(in.picked))
	defer func() {
		if err != nil {
			for i := range all {
				all[i].Release()
			}
		}
	}()
	for at, i := range in.picked {
		o := &in.plan.outputs[i]
		t := tensor.Tensor{Name: o.name, Datatype: o.datatype, Shape: in.shapes[at], Buffer: in.buffers[at]}
		if t.Buffer == nil {
			if err := in.takeOwned(at, o, &t); err != nil {
				return all, err
			}
		}
		in.buffers[at] = nil
		if len(t.Shape) == 0 && o.scalar != nil {
			t.Shape = o.scalar.Clone()
		}
		t.Data = t.Buffer.Bytes()
		all = append(all, t)
	}
	return all, nil
}

// takeOwned hands out a tensor in ONNX Runtime's memory.
func (in *instance) takeOwned(at int, o *plannedOutput, t *tensor.Tensor) error {
	e, value := in.session.env, in.outputs[at]
	var err error
	if t.Shape, err = e.shapeOf(value); err != nil {
		return err
	}
	if o.datatype == tensor.Bytes {
		elements, err := t.Shape.Elements()
		if err != nil {
			return err
		}
		t.Buffer, err = e.strings(value, int(elements), in.memory)
		return err
	}
	size, err := tensor.ByteSize(o.datatype, t.Shape)
	if err != nil {
		return err
	}
	var start uintptr
	if err := e.call(fnGetTensorMutableData, value, uintptr(unsafe.Pointer(&start))); err != nil {
		return err
	}
	data := library.Bytes(start, int(size))
	if in.isInput(start) {
		// The model hands an input through: its memory ends with the request.
		if t.Buffer, err = in.memory.Allocate(len(data)); err == nil {
			copy(t.Buffer.Bytes(), data)
		}
		return err
	}
	in.session.uses.Add(1)
	t.Buffer = tensor.NewBuffer(data, &owned{session: in.session, value: value})
	in.outputs[at] = 0 // it goes with the buffer
	return nil
}

// isInput reports whether an address lies in the memory of an input.
func (in *instance) isInput(address uintptr) bool {
	for _, t := range in.given {
		if t == nil || len(t.Data) == 0 {
			continue
		}
		if start := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))); address >= start && address < start+uintptr(len(t.Data)) {
			return true
		}
	}
	return false
}

// letGo frees what is left of a run.
func (in *instance) letGo() {
	in.dropOutputs()
	for _, v := range in.inputs {
		in.free(v)
	}
	in.inputs, in.inputNames = in.inputs[:0], in.inputNames[:0]
	clear(in.given)
	in.pins.Unpin()
}

func (in *instance) dropOutputs() {
	for at, v := range in.outputs {
		in.free(v)
		in.buffers[at].Release()
		in.buffers[at], in.shapes[at] = nil, nil
	}
	in.outputs = in.outputs[:0]
}
