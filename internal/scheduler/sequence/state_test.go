package sequence

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func stateOf(first ...byte) State {
	return State{
		SequenceState: modelconfig.SequenceState{Input: "IN_S", Output: "OUT_S", Datatype: tensor.Uint8, Dims: tensor.Shape{-1}},
		First:         tensor.Tensor{Name: "IN_S", Datatype: tensor.Uint8, Shape: tensor.Shape{1, int64(len(first))}, Data: first},
	}
}

// grow answers with the state plus the request's number at the end.
func grow(r *infer.Request) {
	if r.ID == "" { // of an unused slot
		_ = r.Request.Respond(nil, true)
		return
	}
	s := r.Input("IN_S")
	data := append(append([]byte(nil), s.Data...), r.ID[len(r.ID)-1]-'0')
	out := tensor.Tensor{Name: "OUT_S", Datatype: tensor.Uint8, Shape: tensor.Shape{1, int64(len(data))}, Data: data}
	switch r.ID[0] {
	case 'x': // leaves the state as it is
		_ = r.Request.Respond(&backend.Response{}, true)
		return
	case 'w':
		out.Shape = tensor.Shape{2, 1}
	case 'e':
		_ = r.Request.Respond(&backend.Response{Outputs: []tensor.Tensor{out}, Err: backend.Errorf(backend.Internal, "no")}, true)
		return
	}
	_ = r.Request.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
}

func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}}, 2, &fake{answer: grow}, stateOf(9))
		for _, step := range []struct {
			id    string
			corr  int
			flags backend.Flags
		}{
			{"a1", 1, first},
			{"a2", 1, 0},
			{"b3", 2, first}, // another sequence, another state
			{"a4", 1, 0},
			{"x5", 1, 0},
			{"w6", 1, 0},
			{"e7", 1, 0},
			{"a8", 1, last},
			{"a9", 1, first}, // anew
			{"a1", 1, first}, // cut, and anew
		} {
			w.send(t.Context(), step.id, step.corr, step.flags)
			synctest.Wait()
		}
		w.close(t)
		w.want(t, []string{
			"a1 IN_S=[9]",
			"a2 IN_S=[9 1]",
			"- IN_S=[9]|b3 IN_S=[9]",
			"a4 IN_S=[9 1 2]",
			"x5 IN_S=[9 1 2 4]",
			"w6 IN_S=[9 1 2 4]",
			"e7 IN_S=[9 1 2 4]",
			"a8 IN_S=[9 1 2 4]",
			"a9 IN_S=[9]",
			"a1 IN_S=[9]",
		}, map[string]string{
			"w6": "Internal: output state 'OUT_S' of model 'm' has shape [2,1], expected [1,-1]", "e7": "Internal: no",
		})
	})
}

// TestStatesOfOtherShapes: all rows of a batch have states of one shape, those of unused
// slots too, and requests whose states differ do not share one. The rows of a batch lie
// one behind the other: with a longer one among them each would begin in another.
func TestStatesOfOtherShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &modelconfig.DirectStrategy{MaxQueueDelay: time.Millisecond, MinimumSlotUtilization: 1}
		w := newWorld(&modelconfig.SequenceBatching{Direct: full}, 2, &fake{answer: grow}, stateOf(9))
		for _, step := range []struct {
			id    string
			corr  int
			flags backend.Flags
			both  bool // with the next one
		}{
			{"a1", 1, first, true},
			{"b2", 2, first, false},
			{"b3", 2, 0, false},
			{"a4", 1, 0, true},
			{"b5", 2, 0, false},
			{"a6", 1, first, true},
			{"b7", 2, last, false},
			{"a8", 1, last, false},
		} {
			w.send(t.Context(), step.id, step.corr, step.flags)
			if !step.both {
				time.Sleep(time.Second / 10) // of the bubble's clock
			}
		}
		w.close(t)
		w.want(t, []string{
			"a1 IN_S=[9]|b2 IN_S=[9]",
			"- IN_S=[0 0]|b3 IN_S=[9 2]",
			"a4 IN_S=[9 1]|- IN_S=[0 0]",
			"- IN_S=[0 0 0]|b5 IN_S=[9 2 3]",
			"a6 IN_S=[9]|- IN_S=[9]",
			"- IN_S=[0 0 0 0]|b7 IN_S=[9 2 3 5]",
			"a8 IN_S=[9 6]",
		}, map[string]string{})
	})
}

// With use_same_buffer_for_input_output a state of the same size stays where it
// is; another size needs memory of its own.
func TestStateInOneBuffer(t *testing.T) {
	memory := &counted{}
	st := State{
		SequenceState: modelconfig.SequenceState{Input: "I", Output: "O", Datatype: tensor.Uint8, Dims: tensor.Shape{-1}, SameBuffer: true},
		First:         tensor.Tensor{Name: "I", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{0}},
	}
	s, of := &states{list: []State{st}, model: "m", allocator: memory}, &state{}
	inputs, life := s.add(nil, of, true)
	var places []*byte
	for _, data := range []string{"a", "b", "cd", "ef"} {
		if err := s.set(of, life, 0, &tensor.Tensor{
			Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(data))},
			Data: []byte(data),
		}); err != nil {
			t.Fatal(err)
		}
		now := &of.now[0]
		if string(now.Data) != data || !now.Shape.Equal(tensor.Shape{int64(len(data))}) {
			t.Errorf("state %q, %s, want %q", now.Data, now.Shape, data)
		}
		places = append(places, &now.Data[0])
	}
	if places[0] != places[1] || places[1] == places[2] || places[2] != places[3] || inputs[0].Data[0] != 0 || st.First.Data[0] != 0 {
		t.Errorf("places %v, first %v", places, st.First.Data)
	}
	if of.end(); memory.live.Load() != 0 {
		t.Errorf("%d buffers left", memory.live.Load())
	}
}

func TestStateChecks(t *testing.T) {
	s := &states{model: "m", batching: true, allocator: heap{}}
	for _, test := range []struct {
		d    tensor.Datatype
		out  tensor.Tensor
		want string
	}{
		{tensor.Uint8, tensor.Tensor{Datatype: tensor.Int8, Shape: tensor.Shape{1, 1}, Data: []byte{1}}, "has datatype INT8, expected UINT8"},
		{
			tensor.Uint8,
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1, 2}, Data: []byte{1}},
			"has 1 bytes, expected 2 for shape [1,2]",
		},
		{tensor.Uint8, tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1, -1}, Data: []byte{1}}, "has shape [1,-1], expected [1,-1]"},
		{
			tensor.Uint8,
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1 << 62, 4}},
			"has shape [1,4611686018427387904,4], expected [1,-1]",
		},
		{
			tensor.Bytes,
			tensor.Tensor{Datatype: tensor.Bytes, Shape: tensor.Shape{1, 2}, Data: []byte("\x01\x00\x00\x00a")},
			"has 1 elements, expected 2 for shape [1,2]",
		},
		{tensor.Bytes, tensor.Tensor{Datatype: tensor.Bytes, Shape: tensor.Shape{1, 1}, Data: []byte("\x01\x00\x00\x00a")}, ""},
	} {
		st := &State{SequenceState: modelconfig.SequenceState{Output: "O", Datatype: test.d, Dims: tensor.Shape{-1}}}
		got := ""
		if err := s.check(st, &test.out); err != nil {
			got = err.Message
		}
		want := ""
		if test.want != "" {
			want = "output state 'O' of model 'm' " + test.want
		}
		if got != want {
			t.Errorf("%v: %q, want %q", test.out, got, want)
		}
	}
}

// counted fails the test for buffers that are not given back.
type counted struct{ live atomic.Int64 }

func (c *counted) Allocate(n int) (*tensor.Buffer, error) {
	c.live.Add(1)
	return tensor.NewBuffer(make([]byte, n), c), nil
}

func (c *counted) ReleaseBuffer(*tensor.Buffer) { c.live.Add(-1) }

func TestStateIsReleased(t *testing.T) {
	for _, end := range []string{"end", "idle", "close", "restart"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(&modelconfig.SequenceBatching{}, 2, &fake{answer: grow}, stateOf(1))
			memory := &counted{}
			w.states.allocator, w.nulls.allocator = memory, memory
			w.send(t.Context(), "a1", 1, first)
			synctest.Wait()
			w.send(t.Context(), "b1", 2, first)
			synctest.Wait()
			switch end {
			case "end":
				w.send(t.Context(), "a2", 1, last)
				w.send(t.Context(), "b2", 2, last)
			case "idle":
				w.send(t.Context(), "a2", 1, 0)
			case "restart":
				w.send(t.Context(), "a2", 1, first)
			}
			synctest.Wait()
			if end == "idle" {
				w.wait(t)
			}
			w.close(t)
			if n := memory.live.Load(); n != 0 {
				t.Errorf("%s: %d buffers left", end, n)
			}
		})
	}
}
