package openvino

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// instance runs one batch at a time, with a request of the library's.
type instance struct {
	network *network
	request uintptr
	memory  tensor.Allocator
	inputs  []string // by place in the model, the names of the configuration
	outputs []output
	batches bool
	pad     int            // the size to which batches are filled up; 0: none
	pins    runtime.Pinner // of the tensors' memory, for one run
	tensors []uintptr      // of the inputs, for one run
	nothing [tensor.Alignment]byte
	closing sync.Once
}

// output is an output that the configuration names.
type output struct {
	name   string
	place  uintptr
	scalar tensor.Shape // its shape where the model has no dimensions
}

func newInstance(m *model) (*instance, error) {
	n := m.network
	in := &instance{network: n, memory: m.driver.host.Allocator(), batches: m.cfg.MaxBatchSize > 0}
	if m.options.padding && in.batches {
		in.pad = m.cfg.MaxBatchSize
	}
	for i := range n.inputs {
		at := slices.IndexFunc(m.cfg.Inputs, func(io backend.IO) bool { return find(n.inputs, io.Name) == &n.inputs[i] })
		in.inputs = append(in.inputs, m.cfg.Inputs[at].Name)
	}
	for _, io := range m.cfg.Outputs {
		p := find(n.outputs, io.Name)
		out := output{name: io.Name, place: uintptr(slices.IndexFunc(n.outputs, func(o port) bool { return o.name == p.name }))}
		if len(p.shape) == 0 && len(io.Dims) > 0 && !io.Dims.HasWildcard() && !in.batches {
			out.scalar = io.Dims
		}
		in.outputs = append(in.outputs, out)
	}
	request := new(uintptr)
	if err := n.api.call(fnCreateRequest, n.compiled, uintptr(unsafe.Pointer(request))); err != nil {
		return nil, backend.Errorf(backend.Unavailable, "unable to make an instance of model '%s': %v", m.cfg.Name, err)
	}
	in.request = *request
	n.uses.Add(1)
	return in, nil
}

// Close implements backend.Instance.
func (in *instance) Close() error {
	in.closing.Do(func() {
		in.network.api.free(fnRequestFree, in.request)
		in.network.drop()
	})
	return nil
}

// Execute implements backend.Instance. A batch that fails is tried again
// request by request, so that one bad request does not fail the others.
func (in *instance) Execute(ctx context.Context, b *backend.Batch) error {
	outputs, err := in.run(ctx, b, b.Requests, b.Inputs)
	switch {
	case err == nil && len(b.Requests) > 1:
		return b.Scatter(outputs)
	case err == nil:
		_ = b.Requests[0].Respond(&backend.Response{Outputs: outputs}, true) // a cancelled request needs nothing more
		return nil
	case len(b.Requests) == 1 || errors.Is(err, errCancelled):
		return err
	}
	for _, r := range b.Requests {
		outputs, err := in.run(ctx, b, []*backend.Request{r}, r.Inputs)
		resp := &backend.Response{Outputs: outputs}
		if err != nil {
			resp = &backend.Response{Err: backend.AsError(err)}
		}
		_ = r.Respond(resp, true)
	}
	return nil
}

// errCancelled is the answer to requests that nobody waits for.
var errCancelled = backend.Errorf(backend.Cancelled, "the request was cancelled while the model ran")

// run runs the model on the inputs of requests.
func (in *instance) run(
	ctx context.Context, b *backend.Batch, requests []*backend.Request, inputs []tensor.Tensor,
) ([]tensor.Tensor, error) {
	defer in.letGo()
	rows := 0
	for i := range inputs {
		t := &inputs[i]
		at := slices.Index(in.inputs, t.Name)
		if at < 0 {
			return nil, backend.Errorf(backend.Internal, "the model has no input '%s'", t.Name)
		}
		if in.batches && len(t.Shape) > 0 {
			rows = int(t.Shape[0])
		}
		if err := in.set(uintptr(at), t); err != nil {
			return nil, in.explain(err)
		}
	}
	b.InputEnd = backend.Now()
	err := in.infer(ctx, requests)
	b.OutputStart = backend.Now()
	if err != nil {
		return nil, in.explain(err)
	}
	return in.take(requests, rows)
}

// set gives an input to the request: a view of its memory, or a copy that is
// filled up to the largest batch.
func (in *instance) set(place uintptr, t *tensor.Tensor) error {
	a, n := in.network.api, in.network
	data, shape := t.Data, t.Shape
	if len(n.inputs[place].shape) == 0 && !n.inputs[place].unranked {
		shape = nil
	}
	if in.pad > 0 && len(shape) > 0 && shape[0] < int64(in.pad) && shape[0] > 0 {
		row := len(data) / int(shape[0])
		filled := make([]byte, row*in.pad)
		copy(filled, data)
		data, shape = filled, shape.Clone()
		shape[0] = int64(in.pad)
	}
	start := unsafe.SliceData(data)
	if len(data) == 0 {
		start = &in.nothing[0]
	}
	in.pins.Pin(start)
	value, err := a.view(unsafe.Pointer(start), shape, t.Datatype)
	if err != nil {
		return err
	}
	in.tensors = append(in.tensors, value)
	return a.call(fnSetInput, in.request, place, value)
}

// look is how often a run looks whether anybody still waits, in milliseconds.
const look = 50

// infer runs the request. The library runs it on its own threads; a run that
// nobody waits for any more is ended.
func (in *instance) infer(ctx context.Context, requests []*backend.Request) error {
	a := in.network.api
	if err := a.call(fnStart, in.request); err != nil {
		return err
	}
	cancelled := false
	for {
		err := a.wait(in.request, look)
		failed, ok := errors.AsType[*libraryError](err)
		switch {
		case cancelled && (err == nil || failed.status != statusNotReady):
			return errCancelled
		case err == nil:
			return nil
		case !ok || failed.status != statusNotReady:
			return err
		}
		if !cancelled && abandoned(ctx, requests) {
			cancelled = true
			_ = a.call(fnCancel, in.request) // if it cannot be ended it goes on to its end
		}
	}
}

func abandoned(ctx context.Context, requests []*backend.Request) bool {
	return ctx.Err() != nil || !slices.ContainsFunc(requests, func(r *backend.Request) bool { return !r.Cancelled() })
}

// take copies the outputs that the requests want together.
func (in *instance) take(requests []*backend.Request, rows int) (all []tensor.Tensor, err error) {
	a := in.network.api
	defer func() {
		if err != nil {
			for i := range all {
				all[i].Release()
			}
		}
	}()
	for i := range in.outputs {
		o := &in.outputs[i]
		if !slices.ContainsFunc(requests, func(r *backend.Request) bool { return r.Wants(o.name) }) {
			continue
		}
		value := new(uintptr)
		if err := a.call(fnGetOutput, in.request, o.place, uintptr(unsafe.Pointer(value))); err != nil {
			return all, in.explain(err)
		}
		t, err := in.copy(*value, o, rows)
		a.free(fnTensorFree, *value)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// copy makes a tensor of the server's of one of the library's, which the next
// run writes over.
func (in *instance) copy(value uintptr, o *output, rows int) (tensor.Tensor, error) {
	shape, d, data, err := in.network.api.contents(value)
	if err != nil {
		return tensor.Tensor{}, in.explain(err)
	}
	if in.pad > 0 && rows > 0 && len(shape) > 0 && shape[0] == int64(in.pad) {
		data = data[:len(data)/in.pad*rows]
		shape[0] = int64(rows)
	}
	if len(shape) == 0 && o.scalar != nil {
		shape = o.scalar.Clone()
	}
	buffer, err := in.memory.Allocate(len(data))
	if err != nil {
		return tensor.Tensor{}, err
	}
	copy(buffer.Bytes(), data)
	return tensor.Tensor{Name: o.name, Datatype: d, Shape: shape, Buffer: buffer, Data: buffer.Bytes()}, nil
}

func (in *instance) explain(err error) error {
	if _, ok := errors.AsType[*libraryError](err); ok {
		return backend.Errorf(backend.Internal, "%v%s", err, library.MemoryHint(err.Error()))
	}
	return err
}

// letGo frees what is left of a run.
func (in *instance) letGo() {
	for _, v := range in.tensors {
		in.network.api.free(fnTensorFree, v)
	}
	in.tensors = in.tensors[:0]
	in.pins.Unpin()
}
