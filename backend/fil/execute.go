package fil

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// instance runs one batch at a time.
type instance struct {
	forest  *forest
	options *options
	threads int
	batches bool
	input   tensor.Datatype
	output  tensor.Datatype
	name    string       // of the output
	answer  tensor.Shape // of one row, without the dimension of the rows
	columns int          // numbers in it
	memory  tensor.Allocator
	scratch []scratch // one for each goroutine
	closing sync.Once
}

// scratch is what one goroutine computes with, used again.
type scratch struct {
	in, out []float64 // as memory: the elements may be FP32
}

func newInstance(m *model) *instance {
	out := &m.cfg.Outputs[0]
	in := &instance{
		forest: m.forest, options: m.options, threads: m.threads, batches: m.cfg.MaxBatchSize > 0,
		input: m.cfg.Inputs[0].Datatype, output: out.Datatype, name: out.Name, answer: out.Dims, columns: 1,
		memory: m.driver.host.Allocator(), scratch: make([]scratch, m.threads),
	}
	if !in.batches {
		in.answer = out.Dims[1:]
	}
	for _, d := range in.answer {
		in.columns *= int(d)
	}
	return in
}

// Close implements backend.Instance.
func (in *instance) Close() error {
	in.closing.Do(in.forest.Drop)
	return nil
}

// Execute implements backend.Instance.
func (in *instance) Execute(ctx context.Context, b *backend.Batch) error {
	if len(b.Inputs) == 0 {
		return backend.Errorf(backend.InvalidArg, "the input is missing: the configuration says optional, a forest has no default for it")
	}
	t := &b.Inputs[0]
	rows := len(t.Data) / (in.forest.features * in.input.Size())
	buffer, err := in.memory.Allocate(rows * in.columns * in.output.Size())
	if err != nil {
		return err
	}
	b.InputEnd = backend.Now()
	err = in.run(ctx, b.Requests, t.Data, buffer.Bytes(), rows)
	b.OutputStart = backend.Now()
	if err != nil {
		buffer.Release()
		return err
	}
	shape := make(tensor.Shape, 0, 1+len(in.answer))
	shape = append(append(shape, int64(rows)), in.answer...)
	outputs := []tensor.Tensor{{Name: in.name, Datatype: in.output, Shape: shape, Buffer: buffer, Data: buffer.Bytes()}}
	if len(b.Requests) > 1 {
		return b.Scatter(outputs)
	}
	if !b.Requests[0].Wants(in.name) {
		outputs[0].Release()
		outputs = nil
	}
	_ = b.Requests[0].Respond(&backend.Response{Outputs: outputs}, true) // a cancelled request needs nothing more
	return nil
}

// visitsPerPart is how many trees a goroutine goes through before it looks
// whether anybody still waits, some milliseconds; less is not worth a goroutine.
const visitsPerPart = 1 << 16

// run computes rows, in parts when they are many.
func (in *instance) run(ctx context.Context, requests []*backend.Request, data, out []byte, rows int) error {
	step := max(1, visitsPerPart/in.forest.trees)
	if rows <= step {
		return in.part(&in.scratch[0], data, out, 0, rows)
	}
	var next atomic.Int64
	work := func(s *scratch) error {
		for {
			from := int(next.Add(int64(step))) - step
			if from >= rows {
				return nil
			}
			if abandoned(ctx, requests) {
				return errCancelled
			}
			if err := in.part(s, data, out, from, min(rows, from+step)); err != nil {
				return err
			}
		}
	}
	n := min(in.threads, (rows+step-1)/step)
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := 1; i < n; i++ {
		group.Go(func() { errs[i] = work(&in.scratch[i]) })
	}
	errs[0] = work(&in.scratch[0])
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// errCancelled is the answer to requests that nobody waits for.
var errCancelled = backend.Errorf(backend.Cancelled, "the request was cancelled while the model ran")

func abandoned(ctx context.Context, requests []*backend.Request) bool {
	if ctx.Err() != nil {
		return true
	}
	for _, r := range requests {
		if !r.Cancelled() {
			return false
		}
	}
	return true
}

// part computes some of the rows.
func (in *instance) part(s *scratch, data, out []byte, from, to int) error {
	f, rows := in.forest, to-from
	if rows == 0 {
		return nil
	}
	row := f.features * in.input.Size()
	data = data[from*row : to*row]
	answer := in.columns * in.output.Size()
	out = out[from*answer : to*answer]
	source := unsafe.Pointer(unsafe.SliceData(data))
	if in.input != f.datatype || uintptr(source)%uintptr(f.datatype.Size()) != 0 {
		s.in = grown(s.in, rows*f.features)
		source = unsafe.Pointer(unsafe.SliceData(s.in))
		convert(source, f.datatype, data, in.input, rows*f.features)
	}
	if in.columns == f.outputs() && in.output == f.datatype && !in.options.classes() {
		return f.compute(source, rows, unsafe.Pointer(unsafe.SliceData(out)))
	}
	s.out = grown(s.out, rows*f.outputs())
	if err := f.compute(source, rows, unsafe.Pointer(unsafe.SliceData(s.out))); err != nil {
		return err
	}
	in.finish(s, out, rows)
	return nil
}

// keptScratch is how much memory of a large batch an instance keeps.
const keptScratch = 1 << 20

// grown returns memory for n elements, the same if it is large enough.
func grown(have []float64, n int) []float64 {
	if cap(have) >= n && (cap(have) <= keptScratch || n > keptScratch/2) {
		return have[:n]
	}
	return make([]float64, n)
}
