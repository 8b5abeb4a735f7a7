package worker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

func shared(t *testing.T, a *segment.Arena, size int) tensor.Tensor {
	t.Helper()
	buf, err := a.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	return tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1, int64(size)}, Data: buf.Bytes(), Buffer: buf}
}

// TestInputsToWriteTo: a block is the callable's own where the instance may
// have it and nothing else refers to it.
func TestInputsToWriteTo(t *testing.T) {
	for _, c := range []struct{ writable, another, want bool }{{true, false, true}, {true, true, false}, {false, false, false}} {
		f := newFake(t, nil)
		inst := f.instance(func(i *Instance) { i.Writable = c.writable })
		in := shared(t, inst.Arena, 1<<16)
		if c.another {
			in.Buffer.Retain()
		}
		done := f.execute(t.Context(), inst, request(newAnswers(), in, tensor.Tensor{
			Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1},
			Data: []byte{1},
		}))
		h, blocks := f.taken()
		if got := blocks[0].Inputs[0]; got.Own != c.want || got.Datatype != tensor.Uint8 {
			t.Errorf("%+v: %+v", c, got)
		}
		if blocks[0].Inputs[1].Own {
			t.Error("an inline input is marked")
		}
		f.sendBody(wire.KindDone, h.ID, nil)
		_ = result(t, done)
		in.Release()
		if c.another {
			in.Release()
		}
	}
}

// TestInputsOfOneBody: two inputs in one buffer are the model's own where they
// lie beside each other, and not where they are the same memory.
func TestInputsOfOneBody(t *testing.T) {
	const size = 1 << 16
	for _, c := range []struct {
		from      int
		elsewhere bool // in memory that has to be copied
		want      bool
	}{{from: size, want: true}, {from: 0}, {from: size, elsewhere: true, want: true}, {from: 0, elsewhere: true, want: true}} {
		f := newFake(t, nil)
		inst := f.instance(func(i *Instance) { i.Writable = true })
		in := shared(t, inst.Arena, 2*size)
		from, want := c.from, c.want
		if c.elsewhere {
			in.Data = make([]byte, 2*size)
		}
		other := in
		other.Data, other.Shape = in.Data[from:from+size], tensor.Shape{1, size}
		other.Buffer.Retain()
		in.Data, in.Shape = in.Data[:size], tensor.Shape{1, size}
		done := f.execute(t.Context(), inst, request(newAnswers(), in, other))
		h, blocks := f.taken()
		for _, got := range blocks[0].Inputs {
			if got.Own != want {
				t.Errorf("%+v: %+v", c, got)
			}
		}
		f.sendBody(wire.KindDone, h.ID, nil)
		_ = result(t, done)
		in.Release()
		other.Release()
	}
}

// TestInputsFromOnePlace: two inputs that begin at the same place, as a program may
// give them, and end at different ones each have all their bytes.
func TestInputsFromOnePlace(t *testing.T) {
	const size = 1 << 16
	f := newFake(t, nil)
	inst := f.instance(func(*Instance) {})
	long := tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 2 * size}, Data: bytes.Repeat([]byte{7}, 2*size)}
	long.Buffer = tensor.NewBuffer(long.Data, nil)
	short := tensor.Tensor{
		Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1, size}, Data: long.Data[:size],
		Buffer: long.Buffer.Retain(),
	}
	done := f.execute(t.Context(), inst, request(newAnswers(), short, long))
	h, blocks := f.taken()
	for i, e := range blocks[0].Inputs {
		if got := f.maps[e.Segment][e.Offset : e.Offset+e.Length]; !bytes.Equal(got, long.Data[:len(got)]) {
			t.Errorf("input %d: %d bytes, not those that were sent", i, len(got))
		}
	}
	f.sendBody(wire.KindDone, h.ID, nil)
	_ = result(t, done)
	short.Release()
	long.Release()
}

// TestInputsOfOneMemory: requests of one batch that were sent the same memory, as
// two steps of an ensemble are, have a copy each. It ends with its request, and
// what a model writes into it the others do not see.
func TestInputsOfOneMemory(t *testing.T) {
	const size = 1 << 16
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.Writable = true })
	one := tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1, size}, Data: bytes.Repeat([]byte{7}, size)}
	one.Buffer = tensor.NewBuffer(one.Data, nil)
	two := one
	two.Buffer.Retain()
	done := f.execute(t.Context(), inst, request(newAnswers(), one), request(newAnswers(), two))
	h, blocks := f.taken()
	a, b := blocks[0].Inputs[0], blocks[1].Inputs[0]
	if a.Segment == b.Segment && a.Offset == b.Offset || !a.Own || !b.Own {
		t.Errorf("%+v and %+v", a, b)
	}
	f.sendBody(wire.KindDone, h.ID, nil)
	_ = result(t, done)
	one.Release()
	two.Release()
}

// TestReturnedInput answers with a part of an input, in both shapes: the
// response is a view of it, which outlives the request's own reference.
func TestReturnedInput(t *testing.T) {
	const size, from = 1 << 16, 4096
	for _, gather := range []bool{false, true} {
		f := newFake(t, nil)
		inst := f.instance(func(i *Instance) { i.Gather = gather; i.InlineLimit = 4 })
		a := newAnswers()
		in := shared(t, inst.Arena, size)
		out := tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1, size - from}, Data: make([]byte, size-from)}
		var e wire.Entry
		var done chan error
		if gather {
			b := &backend.Batch{Requests: []*backend.Request{request(a, in)}, Inputs: []tensor.Tensor{in}, Size: 1}
			done = make(chan error, 1)
			go func() { done <- inst.Execute(t.Context(), b) }()
			h, body := f.next(wire.KindExecuteBatch)
			block, err := wire.DecodeExecuteBatch(body)
			if err != nil {
				t.Fatal(err)
			}
			e = block.Inputs[0]
			f.maps[e.Segment][e.Offset+from] = 7
			f.send(f.enc.AppendResultBatch(nil, 0, h.ID, wire.FlagEnds, []tensor.Tensor{out}, []int{0},
				[]wire.Place{{Segment: e.Segment, Offset: e.Offset + from}}))
		} else {
			done = f.execute(t.Context(), inst, request(a, in))
			h, blocks := f.taken()
			e = blocks[0].Inputs[0]
			f.maps[e.Segment][e.Offset+from] = 7
			f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
				Handle: blocks[0].Handle, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{out}, Indices: []int{0},
				Places: []wire.Place{{Segment: e.Segment, Offset: e.Offset + from}},
			}}))
		}
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
		<-a.done
		got := a.got[0].Outputs[0]
		start := &in.Data[from]
		in.Release()
		if &got.Data[0] != start || got.Data[0] != 7 || len(got.Data) != size-from {
			t.Errorf("gather=%v: the output is no view of the input", gather)
		}
		if used := inst.Arena.Used(); used == 0 {
			t.Errorf("gather=%v: the block is free while the response refers to it", gather)
		}
		a.got[0].Release()
		if used := inst.Arena.Used(); used != 0 {
			t.Errorf("gather=%v: %d bytes are left", gather, used)
		}
	}
}

// TestOutputInForeignInput: an output in an input of another request breaks the
// protocol; one of a request that was answered without its worker is dropped.
func TestOutputInForeignInput(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	a, b := newAnswers(), newAnswers()
	done := f.execute(t.Context(), inst, request(a, shared(t, inst.Arena, 1<<16)), request(b, shared(t, inst.Arena, 1<<16)))
	h, blocks := f.taken()
	other := blocks[1].Inputs[0]
	out := tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1 << 16}, Data: make([]byte, 1<<16)}
	at := []wire.Place{{Segment: other.Segment, Offset: other.Offset}}
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, 0, []wire.Outgoing{
		{Handle: 1 << 60, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{out}, Indices: []int{0}, Places: at}, // of nobody
		{Handle: blocks[0].Handle, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{out}, Indices: []int{0}, Places: at},
	}))
	if err := result(t, done); err == nil || !strings.Contains(err.Error(), "holds no input of the request") {
		t.Errorf("got %v", err)
	}
}
