package sequence

import (
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// State is a tensor that the server keeps for each sequence: the model gets it
// as an input and gives it back, changed, as an output.
type State struct {
	modelconfig.SequenceState
	// First is what the first request of a sequence gets, with a batch dimension
	// where the model has one. Its data belongs to no buffer and is never written.
	First tensor.Tensor
}

// states are all states of a model.
type states struct {
	list      []State
	model     string
	batching  bool
	allocator tensor.Allocator
}

// state is what one sequence has at present.
type state struct {
	mu   sync.Mutex
	now  []tensor.Tensor // one for each of states.list
	life uint64          // grows with START, so that late outputs of what was before are told apart
	over bool
}

// add appends the sequence's state to the inputs of its next request, with
// references of their own.
func (s *states) add(inputs []tensor.Tensor, of *state, begin bool) (_ []tensor.Tensor, life uint64) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.now == nil || begin {
		for i := range of.now {
			of.now[i].Release()
		}
		of.now = of.now[:0]
		for i := range s.list {
			of.now = append(of.now, s.list[i].First)
		}
		of.life++
	}
	for i := range of.now {
		t := of.now[i]
		t.Retain()
		inputs = append(inputs, t)
	}
	return inputs, of.life
}

// first appends the state of a sequence that has not begun.
func (s *states) first(inputs []tensor.Tensor) []tensor.Tensor {
	for i := range s.list {
		inputs = append(inputs, s.list[i].First)
	}
	return inputs
}

// null appends the states of an unused slot: the first ones, as far as these have
// the shapes of those that a request of the batch has, else zeros.
func (s *states) null(inputs, like []tensor.Tensor, zeros *nulls) ([]tensor.Tensor, error) {
	for i := range s.list {
		if like[i].Shape.Equal(s.list[i].First.Shape) {
			inputs = append(inputs, s.list[i].First)
			continue
		}
		made, err := zeros.inputs(like[i:i+1], 1)
		if err != nil {
			return inputs, err
		}
		inputs = append(inputs, made...)
	}
	return inputs, nil
}

// vary reports whether states of the same name may differ in shape.
func (s *states) vary() bool {
	return slices.ContainsFunc(s.list, func(st State) bool { return st.Dims.HasWildcard() })
}

// alike reports whether the states of two requests have the same shapes, so that
// they may share a batch: its rows are of one length.
func (s *states) alike(a, b *entry) bool {
	for i := range s.list {
		if !s.shape(a, i).Equal(s.shape(b, i)) {
			return false
		}
	}
	return true
}

// shape is that of the i-th state which the next request of a sequence will get.
func (s *states) shape(e *entry, i int) tensor.Shape {
	if of := e.seq.own.state; of != nil && !e.start {
		of.mu.Lock()
		defer of.mu.Unlock()
		if of.now != nil {
			return of.now[i].Shape
		}
	}
	return s.list[i].First.Shape
}

// end lets go of a sequence's state; what comes later is dropped.
func (of *state) end() {
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.over = true
	for i := range of.now {
		of.now[i].Release()
	}
	of.now = nil
}

// keep takes the new state out of a response, which goes on to the client. What
// is wrong with it becomes the response's error; the state is then as before.
func (s *states) keep(of *state, life uint64, resp *backend.Response) {
	if resp == nil || resp.Err != nil {
		return
	}
	for i := range s.list {
		st := &s.list[i]
		for k := range resp.Outputs {
			if resp.Outputs[k].Name != st.Output {
				continue
			}
			if err := s.set(of, life, i, &resp.Outputs[k]); err != nil {
				resp.Err = err
				return
			}
			break
		}
	}
}

// set copies an output into the memory of the model, where its next request
// finds it. The copy is the one that handing it to another request costs: the
// output lies where the model wrote it, which is to be free again soon.
func (s *states) set(of *state, life uint64, i int, out *tensor.Tensor) *backend.Error {
	st := &s.list[i]
	if err := s.check(st, out); err != nil {
		return err
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.over || of.life != life {
		return nil
	}
	// With one buffer for both the new state takes the place of the old one, also
	// where the model still looks at it: that is what the configuration asks for.
	if now := &of.now[i]; st.SameBuffer && now.Buffer != nil && len(now.Data) == len(out.Data) {
		copy(now.Data, out.Data)
		now.Shape = out.Shape.Clone()
		return nil
	}
	b, err := s.allocator.Allocate(len(out.Data))
	if err != nil {
		return backend.AsError(err)
	}
	copy(b.Bytes(), out.Data)
	of.now[i].Release()
	of.now[i] = tensor.Tensor{Name: st.Input, Datatype: st.Datatype, Shape: out.Shape.Clone(), Data: b.Bytes(), Buffer: b}
	return nil
}

func (s *states) check(st *State, out *tensor.Tensor) *backend.Error {
	if out.Datatype != st.Datatype {
		return backend.Errorf(backend.Internal, "output state '%s' of model '%s' has datatype %s, expected %s", st.Output, s.model,
			out.Datatype, st.Datatype)
	}
	want := st.Dims
	if s.batching {
		want = append(tensor.Shape{1}, want...)
	}
	if !out.Shape.Matches(want) || out.Shape.HasWildcard() {
		return backend.Errorf(backend.Internal, "output state '%s' of model '%s' has shape %s, expected %s", st.Output, s.model, out.Shape, want)
	}
	size, err := tensor.ByteSize(out.Datatype, out.Shape)
	if err != nil {
		return backend.Errorf(backend.Internal, "output state '%s' of model '%s' has shape %s, which is too large", st.Output, s.model, out.Shape)
	}
	if out.Datatype == tensor.Bytes {
		n, err := tensor.CountBytes(out.Data)
		if err != nil || int64(n) != size/4 {
			return backend.Errorf(backend.Internal, "output state '%s' of model '%s' has %d elements, expected %d for shape %s",
				st.Output, s.model, n, size/4, out.Shape)
		}
	} else if int64(len(out.Data)) != size {
		return backend.Errorf(backend.Internal, "output state '%s' of model '%s' has %d bytes, expected %d for shape %s", st.Output,
			s.model, len(out.Data), size, out.Shape)
	}
	return nil
}
