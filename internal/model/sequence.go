package model

import (
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/scheduler/sequence"
	"github.com/nesoserve/neso/tensor"
)

// paramBacklog is the parameter of a model configuration that bounds the
// requests which wait for a sequence slot.
const paramBacklog = "max_sequence_backlog"

// sequenceInputs is what a sequence model gets beside what clients send.
type sequenceInputs struct {
	states    []sequence.State
	backlog   int
	scheduler *sequence.Scheduler // once the model has one
}

// newSequenceInputs reads initial states; nil for a model of another scheduler.
func newSequenceInputs(c *modelconfig.Config, directory string) (*sequenceInputs, error) {
	if c.Sequence == nil {
		return nil, nil
	}
	s := &sequenceInputs{}
	for i := range c.Sequence.States {
		st := c.Sequence.States[i]
		if err := checkState(c, i); err != nil {
			return nil, err
		}
		same := func(o sequence.State) bool { return o.Input == st.Input || o.Output == st.Output }
		if slices.ContainsFunc(s.states, same) {
			continue // the first of two with one name counts, as in Triton
		}
		first, err := firstState(&st, directory, c.MaxBatchSize > 0)
		if err != nil {
			return nil, err
		}
		s.states = append(s.states, sequence.State{SequenceState: st, First: first})
	}
	if n, err := backlogOf(c); err != nil {
		return nil, err
	} else if n > 0 {
		s.backlog = n
	}
	return s, nil
}

// backlogOf returns what the model's parameter says, 0 without one.
func backlogOf(c *modelconfig.Config) (int, error) {
	v, ok := c.Parameters[paramBacklog]
	if !ok || c.Sequence == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		return 0, backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected a number above 0", paramBacklog, c.Name, v)
	}
	return n, nil
}

// checkState finds what Triton finds only when it makes the scheduler.
func checkState(c *modelconfig.Config, i int) error {
	st := &c.Sequence.States[i]
	for _, o := range c.Sequence.States[:i] {
		if o.Input == st.Input && o.Initial != nil && st.Initial != nil {
			return backend.Errorf(backend.InvalidArg, "State input name '%s' specified more than once.", st.Input)
		}
	}
	notGPU := func(g modelconfig.InstanceGroup) bool { return g.Kind != "KIND_GPU" }
	if st.Growable && slices.ContainsFunc(c.Groups, notGPU) {
		return backend.Errorf(backend.InvalidArg, "'use_growable_memory' can only work with KIND_GPU model instances right now. "+
			"Please either change the instance type to KIND_GPU or set 'use_growable_memory' to false for state input '%s'.", st.Input)
	}
	return nil
}

// firstState makes what the first request of a sequence gets: the configured
// data, else zeros, with 1 for a dimension of any size.
func firstState(st *modelconfig.SequenceState, directory string, batching bool) (tensor.Tensor, error) {
	t := tensor.Tensor{Name: st.Input, Datatype: st.Datatype}
	dims := st.Dims.Clone()
	if st.Initial != nil {
		dims = st.Initial.Dims.Clone()
	}
	for i, d := range dims {
		if d == -1 {
			dims[i] = 1
		}
	}
	size, err := tensor.ByteSize(st.Datatype, dims)
	if err != nil || size > maxWarmupBytes {
		return t, backend.Errorf(backend.InvalidArg, "state '%s' has shape %s, which is too large", st.Input, dims)
	}
	t.Shape = dims
	if batching {
		t.Shape = append(tensor.Shape{1}, dims...)
	}
	if st.Initial == nil || st.Initial.DataFile == "" {
		t.Data = make([]byte, size) // for BYTES: empty strings
		return t, nil
	}
	file := st.Initial.DataFile
	if t.Data, err = readInside(directory, "initial_state/"+file, maxWarmupBytes); err != nil {
		return t, backend.Errorf(backend.InvalidArg, "unable to read initial_state file '%s' of state '%s': %v", file, st.Input, err)
	}
	if st.Datatype == tensor.Bytes {
		if n, err := tensor.CountBytes(t.Data); err != nil || int64(n) != size/4 {
			return t, backend.Errorf(backend.InvalidArg, "initial_state setting expects %d strings, but the data provided from %s has %d", size/4,
				file, n)
		}
		return t, nil
	}
	if int64(len(t.Data)) < size {
		// Triton's text lacks the blank before "only".
		return t, backend.Errorf(backend.InvalidArg, "initial_state setting expects %d bytes, but the data provided from %sonly has %d bytes.",
			size, file, len(t.Data))
	}
	t.Data = t.Data[:size:size]
	return t, nil
}

func (m *Model) newSequence(o *Options) scheduler.Scheduler {
	c := m.config
	m.sequence.scheduler = sequence.New(sequence.Options{
		Config: c.Sequence, Model: c.Name, MaxBatchSize: c.MaxBatchSize, Compatible: scheduler.NewCompatibility(c),
		Executor: m.pool, Stats: m.stats, Decoupled: c.Decoupled, States: m.sequence.states, Allocator: m.allocator, Backlog: m.sequence.backlog,
		Hold: o.HoldRequests, HoldBacklog: o.HoldBacklog, Logger: m.logger,
	})
	return m.sequence.scheduler
}

// HoldsSequence reports whether a sequence has begun here and not ended.
func (m *Model) HoldsSequence(id backend.CorrelationID) bool {
	return m.sequence != nil && m.sequence.scheduler != nil && m.sequence.scheduler.Holds(id)
}

// EndSequence ends a sequence whose client is gone, if it has begun here: its requests
// that wait are cancelled, and its slot is free.
func (m *Model) EndSequence(id backend.CorrelationID) {
	if m.sequence != nil && m.sequence.scheduler != nil {
		m.sequence.scheduler.End(id)
	}
}

// StopSequences refuses new sequences from now on; those that have begun may go
// on. The channel is closed when all of them have ended; it is nil for a model
// without sequences.
func (m *Model) StopSequences() <-chan struct{} {
	if m.sequence == nil || m.sequence.scheduler == nil {
		return nil
	}
	return m.sequence.scheduler.Stop()
}
