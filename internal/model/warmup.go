package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler/sequence"
	"github.com/nesoserve/neso/tensor"
)

// sample is a warm-up sample with its data.
type sample struct {
	name          string
	batch, rounds int
	inputs        []tensor.Tensor
	beside        []tensor.Tensor // of a sequence: controls and states
}

// A warm-up tensor larger than this is a mistake.
const maxWarmupBytes = 4 << 30

// warmupTogether is how many warm-up requests are made for one batch at most: a
// configuration may ask for billions, which is no reason to hold them all.
const warmupTogether = 4096

// warmupSamples makes the data of the configured samples. Inputs stand in the
// order of the configuration.
func (m *Model) warmupSamples(directory string) ([]sample, error) {
	var samples []sample
	for i := range m.config.Warmup {
		w := &m.config.Warmup[i]
		if w.BatchSize == 0 {
			continue
		}
		s := sample{name: w.Name, batch: w.BatchSize, rounds: max(1, w.Count)}
		left := len(w.Inputs)
		add := func(name string) error {
			in, ok := w.Inputs[name]
			if !ok {
				return nil
			}
			left--
			t, err := warmupTensor(name, in, directory, m.config.MaxBatchSize > 0)
			s.inputs = append(s.inputs, t)
			return err
		}
		for j := range m.config.Inputs {
			if err := add(m.config.Inputs[j].Name); err != nil {
				return nil, err
			}
		}
		beside, err := m.besideSample(w, directory)
		if err != nil {
			return nil, err
		}
		s.beside = beside
		if left > 0 {
			for name := range w.Inputs {
				if m.config.Input(name) == nil && !has(beside, name) {
					return nil, warmupFailed(w.Name, backend.Errorf(backend.InvalidArg, "unexpected inference input '%s' for model '%s'", name,
						m.config.Name))
				}
			}
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// Sample is a warm-up sample as a client would send it.
type Sample struct {
	Name   string
	Inputs []tensor.Tensor
}

// Samples returns the warm-up samples, each as one request with a batch of one.
func (m *Model) Samples() ([]Sample, error) {
	made, err := m.warmupSamples(m.directory)
	samples := make([]Sample, len(made))
	for i := range made {
		samples[i] = Sample{made[i].name, made[i].inputs}
	}
	return samples, err
}

// besideSample returns the controls and states of a sample: those of a request
// that is a whole sequence, unless the sample says otherwise.
func (m *Model) besideSample(w *modelconfig.Warmup, directory string) ([]tensor.Tensor, error) {
	if m.sequence == nil {
		return nil, nil
	}
	beside := sequence.Sample(m.config.Sequence, m.sequence.states, m.config.MaxBatchSize > 0)
	for i := range beside {
		in, ok := w.Inputs[beside[i].Name]
		if !ok {
			continue
		}
		t, err := warmupTensor(beside[i].Name, in, directory, m.config.MaxBatchSize > 0)
		if err != nil {
			return nil, err
		}
		beside[i] = t
	}
	return beside, nil
}

func warmupFailed(sample string, err error) error {
	return backend.Errorf(backend.InvalidArg, "failed to run warmup sample '%s': %v; ", sample, err)
}

func warmupTensor(name string, in modelconfig.WarmupInput, directory string, batching bool) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: name, Datatype: in.Datatype, Shape: in.Dims.Clone()}
	if in.Dims.HasWildcard() {
		return t, backend.Errorf(backend.InvalidArg, "warmup setting expects all variable-size dimensions are specified for input '%s'", name)
	}
	size, err := tensor.ByteSize(in.Datatype, in.Dims)
	if err != nil || size > maxWarmupBytes {
		return t, backend.Errorf(backend.InvalidArg, "warmup setting of input '%s' has shape %s, which is too large", name, in.Dims)
	}
	if batching {
		t.Shape = append(tensor.Shape{1}, in.Dims...)
	}
	switch in.Source {
	case "zero":
		t.Data = make([]byte, size) // for BYTES: empty strings
	case "random":
		t.Data = make([]byte, size)
		fillRandom(t.Datatype, t.Data)
	case "file":
		t.Data, err = readInside(directory, "warmup/"+in.File, maxWarmupBytes)
		if err != nil {
			return t, backend.Errorf(backend.InvalidArg, "unable to read warmup data file '%s' for input '%s': %v", in.File, name, err)
		}
		if in.Datatype != tensor.Bytes && int64(len(t.Data)) < size {
			return t, backend.Errorf(backend.InvalidArg, "warmup setting expects %d bytes, but the data provided from %sonly has %d bytes", size,
				in.File, len(t.Data))
		}
		if in.Datatype != tensor.Bytes {
			t.Data = t.Data[:size]
		}
	default:
		return t, backend.Errorf(backend.InvalidArg, "warmup setting expects input '%s' to have input_data_type set", name)
	}
	return t, nil
}

// fillRandom writes valid random elements: booleans 0 or 1, finite numbers
// from 0 to 1 for floating point. BYTES stay empty.
func fillRandom(d tensor.Datatype, data []byte) {
	r := rand.New(rand.NewPCG(1, 2)) // the same numbers on every start
	put := func(i, size int, bits uint64) {
		for j := range size {
			data[i+j] = byte(bits >> (8 * j))
		}
	}
	size := d.Size()
	for i := 0; size > 0 && i+size <= len(data); i += size {
		switch d {
		case tensor.Bool:
			put(i, size, uint64(r.IntN(2)))
		case tensor.FP16:
			put(i, size, uint64(r.IntN(0x3C01))) // up to 1.0
		case tensor.BF16:
			put(i, size, uint64(math.Float32bits(r.Float32()))>>16)
		case tensor.FP32:
			put(i, size, uint64(math.Float32bits(r.Float32())))
		case tensor.FP64:
			put(i, size, math.Float64bits(r.Float64()))
		default:
			put(i, size, r.Uint64())
		}
	}
}

// warm runs all samples on one instance.
func (m *Model) warm(ctx context.Context, samples []sample, run instance.Run, count bool) error {
	for i := range samples {
		s := &samples[i]
		for round := range s.rounds {
			text := fmt.Sprintf("model '%s' is running warmup sample '%s' for iteration %d", m.config.Name, s.name, round+1)
			m.logger.Debug(text) //nolint:sloglint // worded as in Triton, which scripts look for
			if err := m.warmOnce(ctx, s, run, count); err != nil {
				return warmupFailed(s.name, err)
			}
			if !count {
				m.stats.Warmup()
			}
		}
	}
	return nil
}

func (m *Model) warmRequest(ctx context.Context, s *sample, sink infer.Sink, count bool) *infer.Request {
	r := infer.New(sink, nil)
	r.ModelName, r.ModelVersion = m.config.Name, m.version
	r.Ctx = ctx
	r.Owner = warmOwner{m, count}
	r.Times.Start = backend.Now()
	r.Inputs = append([]tensor.Tensor(nil), s.inputs...)
	return r
}

// warmOnce executes one sample: as many requests of batch size 1 as it says,
// together as far as the model can and warmupTogether allows.
func (m *Model) warmOnce(ctx context.Context, s *sample, run instance.Run, count bool) error {
	together := min(max(1, m.config.MaxBatchSize), warmupTogether)
	for left := s.batch; left > 0; left -= together {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(left, together)
		sink := &warmSink{done: make(chan struct{}, n)}
		requests := make([]*infer.Request, n)
		for i := range requests {
			r := m.warmRequest(ctx, s, sink, count)
			if err := m.io.check(r); err != nil {
				for _, r := range requests[:i] {
					r.Discard()
				}
				r.Discard()
				return err
			}
			r.Inputs = append(r.Inputs, s.beside...)
			requests[i] = r
		}
		run(requests, count)
		for range n {
			select {
			case <-sink.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := sink.failure(); err != nil {
			return err
		}
	}
	return nil
}
