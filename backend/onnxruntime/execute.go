package onnxruntime

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/tensor"
)

// instance runs one batch at a time.
type instance struct {
	session   *session
	affinity  *processors.Affinity // nil for anywhere
	invokeRun func() error         // invokes fnRun
	shared    *session             // the model's, perhaps the same
	plan      *plan
	memory    tensor.Allocator
	options   uintptr // OrtRunOptions
	running   running
	watch     *watch
	closing   sync.Once
	pins      runtime.Pinner // of the tensors' memory, for one run
	kept      runtime.Pinner // of the memory of bound tensors
	// By index in the plan: what small tensors are copied to and from.
	boundInputs, boundOutputs []bound
	scratch
}

// scratch is what a run needs, allocated once and used again. C sees it during a
// call only; what it keeps longer, the tensors' memory, is pinned.
type scratch struct {
	inputNames, inputs   []uintptr // names and values that are passed
	outputNames, outputs []uintptr
	own                  []uintptr        // of inputs, those to release after the run
	bounds               []*bound         // by index in picked; nil for an output that is not bound
	given                []*tensor.Tensor // by index in the plan; nil for an optional one that is missing
	picked               []int            // indices in the plan of the outputs that are asked for
	buffers              []*tensor.Buffer // of the outputs whose memory is ours, by index in picked
	shapes               []tensor.Shape   // likewise
	dims                 []int64
	nothing              []byte     // where empty tensors lie
	args                 [8]uintptr // of the next call
	value                uintptr    // that a call returns
	asked                []string   // what picked was made from; nil for requests that differ
}

func newInstance(m *model, s *session, o *sessionOptions) (*instance, error) {
	p := m.plan
	in := &instance{
		session: s, affinity: o.affinity, shared: m.shared, plan: p, memory: m.driver.host.Allocator(), watch: &m.driver.watch,
		boundInputs: make([]bound, len(p.inputs)), boundOutputs: make([]bound, len(p.outputs)), scratch: scratch{
			inputNames: make([]uintptr, 0, len(p.inputs)), inputs: make([]uintptr, 0, len(p.inputs)),
			outputNames: make([]uintptr, 0, len(p.outputs)), outputs: make([]uintptr, 0, len(p.outputs)),
			own: make([]uintptr, 0, len(p.inputs)), bounds: make([]*bound, len(p.outputs)),
			given: make([]*tensor.Tensor, len(p.inputs)), buffers: make([]*tensor.Buffer, len(p.outputs)),
			shapes: make([]tensor.Shape, len(p.outputs)),
			dims:   make([]int64, 16), nothing: make([]byte, tensor.Alignment),
		},
	}
	if err := s.env.call(fnCreateRunOptions, uintptr(unsafe.Pointer(&in.options))); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	in.invokeRun = func() error { return in.invoke(fnRun, 8) }
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
	in.closing.Do(func() {
		in.watch.remove(in)
		in.unbindAll()
		in.session.env.release(fnReleaseRunOptions, in.options)
		in.session.Drop()
	})
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
	return len(b.Scattered) == 0 && len(b.Inputs) == len(b.Requests[0].Inputs) && len(b.Inputs) > 0 &&
		len(b.Inputs[0].Shape) == len(b.Requests[0].Inputs[0].Shape)
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
func (in *instance) run(
	ctx context.Context, b *backend.Batch, requests []*backend.Request, inputs []tensor.Tensor,
) ([]tensor.Tensor, error) {
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
		uintptr(unsafe.Pointer(unsafe.SliceData(in.outputNames))), uintptr(len(in.outputNames)),
		uintptr(unsafe.Pointer(unsafe.SliceData(in.outputs))),
	}
	return in.affinity.Run(in.invokeRun) // this thread takes part in the work
}

// invoke calls a function with the first n of args. They point to memory of the
// instance, which is allocated and stays where it is, or to what is pinned.
func (in *instance) invoke(fn, n int) error {
	e := in.session.env
	status := e.table[fn].CallWith(in.args[:n])
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

// setInputs makes a view of each input's memory, or copies what is small to
// where there is one.
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
		value, err := in.input(i, t.Data, shape)
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
			return backend.Errorf(backend.InvalidArg, "input '%s' is missing: the configuration says optional, the model has no default for it",
				p.inputs[i].name)
		}
	}
	return nil
}

func (in *instance) input(i int, data []byte, shape tensor.Shape) (uintptr, error) {
	p := &in.plan.inputs[i]
	if bindable(p.datatype, len(data)) {
		b := &in.boundInputs[i]
		value, err := in.bind(b, shape, len(data), p.element)
		if err == nil {
			copy(b.memory, data)
		}
		return value, err
	}
	value, err := in.view(data, shape, p.datatype, p.element)
	if err == nil {
		in.own = append(in.own, value)
	}
	return value, err
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
	if d == tensor.Bytes {
		var value uintptr
		dims := append(shape.Clone(), 0) // one more, so that it has an address
		if err := e.call(fnCreateTensorAsOrtValue, e.allocator, uintptr(unsafe.Pointer(&dims[0])), uintptr(len(shape)), element,
			uintptr(unsafe.Pointer(&value))); err != nil {
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
	return in.valueOver(start, len(data), shape, element)
}

// letGo frees what is left of a run.
func (in *instance) letGo() {
	in.dropOutputs()
	for _, v := range in.own {
		in.free(v)
	}
	in.own, in.inputs, in.inputNames = in.own[:0], in.inputs[:0], in.inputNames[:0]
	clear(in.given)
	in.pins.Unpin()
}
