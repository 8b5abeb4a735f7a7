package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// borrower is a worker that has said that it can be lent segments.
func borrower(t *testing.T, host backend.Host) (*fakeWorker, *Instance) {
	t.Helper()
	f := newFake(t, host)
	f.sendBody(wire.KindHello, 0, []byte(`{"pid":1,"protocol":1,"lent":true}`))
	if _, err := f.conn.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, f.instance(nil)
}

// written has the worker put bytes into a fresh block of its memory, and returns
// the server's tensor of it.
func (f *fakeWorker) written(segment uint32, offset uint64, data []byte) tensor.Tensor {
	f.t.Helper()
	copy(f.maps[segment][offset:], data)
	buf, err := f.conn.mem.View(segment, offset, uint64(len(data)))
	if err != nil {
		f.t.Fatal(err)
	}
	return tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(data))}, Data: buf.Bytes(), Buffer: buf}
}

// inputs takes the next EXECUTE.
func (f *fakeWorker) inputs() (h wire.Header, handle uint64, inputs []wire.Entry) {
	f.t.Helper()
	h, blocks := f.taken()
	return h, blocks[0].Handle, blocks[0].Inputs
}

func (f *fakeWorker) read(e *wire.Entry) []byte {
	return f.maps[e.Segment][e.Offset : e.Offset+e.Length]
}

// TestLend: a worker reads what another one wrote, in its memory, and the other
// gets the block back when the reader has answered, also when it keeps it first.
func TestLend(t *testing.T) {
	for _, keep := range []bool{false, true} {
		one := newFake(t, nil)
		two, inst := borrower(t, nil)
		number := one.grow(1 << 20)
		data := bytes.Repeat([]byte{1, 2, 3, 4}, 1<<14)
		in := one.written(number, 4096, data)
		done := two.execute(t.Context(), inst, request(newAnswers(), in))
		h, handle, inputs := two.inputs()
		e := inputs[0]
		if e.Segment != wire.FirstLentSegment || e.Offset != 4096 || e.Own || !bytes.Equal(two.read(&e), data) {
			t.Fatalf("keep=%v: %+v", keep, e)
		}
		one.maps[number][4096] = 9
		if two.read(&e)[0] != 9 {
			t.Error("a copy")
		}
		if inst.Arena.Segments() != 0 {
			t.Error("input memory was used")
		}
		flags := uint32(wire.ResponseFinal)
		if keep {
			flags |= wire.ResponseRetained
		}
		two.send(two.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{Handle: handle, Flags: flags}}))
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
		in.Buffer.Release()
		if keep {
			if n := in.Buffer.References(); n != 1 {
				t.Errorf("%d references while the worker keeps it", n)
			}
			two.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
		}
		_, body := one.next(wire.KindRelease)
		if err := wire.DecodeRelease(body, func(k wire.Block) {
			if k != (wire.Block{Segment: number, Offset: 4096}) {
				t.Errorf("released %+v", k)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLenderEnds: the memory of a worker that is gone stays readable until the
// last reader has answered; then it is dropped, once.
func TestLenderEnds(t *testing.T) {
	one := newFake(t, nil)
	two, inst := borrower(t, nil)
	in := one.written(one.grow(1<<20), 0, bytes.Repeat([]byte{5}, 1<<16))
	done := two.execute(t.Context(), inst, request(newAnswers(), in))
	h, handle, inputs := two.inputs()
	one.conn.Close()
	if in.Data[1<<15] != 5 || two.read(&inputs[0])[1<<15] != 5 {
		t.Error("the data is gone")
	}
	two.send(two.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds,
		[]wire.Outgoing{{Handle: handle, Flags: wire.ResponseFinal}}))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	in.Buffer.Release()
	_, body := two.next(wire.KindDrop)
	if number, err := wire.DecodeDrop(body); err != nil || number != inputs[0].Segment {
		t.Errorf("dropped %d, %v", number, err)
	}
	two.conn.mu.Lock()
	if two.conn.state.shared.lent.Len() != 0 {
		t.Error("the connection remembers it")
	}
	two.conn.mu.Unlock()
	// The next lender gets a number of its own.
	three := newFake(t, nil)
	in = three.written(three.grow(1<<20), 0, bytes.Repeat([]byte{6}, 1<<16))
	done = two.execute(t.Context(), inst, request(newAnswers(), in))
	if h, _, inputs = two.inputs(); inputs[0].Segment != wire.FirstLentSegment+1 || two.read(&inputs[0])[0] != 6 {
		t.Errorf("%+v", inputs[0])
	}
	two.sendBody(wire.KindDone, h.ID, nil)
	_ = result(t, done)
	in.Buffer.Release()
}

// TestBorrowerEnds: a lender forgets a worker that is gone, and has its block
// back.
func TestBorrowerEnds(t *testing.T) {
	one := newFake(t, nil)
	number := one.grow(1 << 20)
	for range 3 {
		two, inst := borrower(t, nil)
		in := one.written(number, 0, make([]byte, 1<<16))
		done := two.execute(t.Context(), inst, request(newAnswers(), in))
		two.inputs()
		_ = two.ctrl.Close()
		_ = two.fds.Close()
		if result(t, done) == nil {
			t.Error("no error")
		}
		two.conn.Close()
		in.Buffer.Release()
		one.next(wire.KindRelease)
		if n := one.conn.mem.SegmentAt(0).Borrowers(); n != 0 {
			t.Errorf("%d borrowers are left", n)
		}
	}
}

// TestNotLent lists what is copied as before.
func TestNotLent(t *testing.T) {
	one := newFake(t, nil)
	number := one.grow(1 << 20)
	for name, c := range map[string]struct {
		able bool
		edit func(*Instance, *tensor.Tensor)
	}{
		"a worker that does not know it":     {false, nil},
		"a callable that may write":          {true, func(i *Instance, _ *tensor.Tensor) { i.Writable = true }},
		"data that is not aligned":           {true, func(_ *Instance, t *tensor.Tensor) { t.Data = t.Data[8:]; t.Shape[0] -= 8 }},
		"data that is not in its buffer":     {true, func(_ *Instance, t *tensor.Tensor) { t.Data = bytes.Clone(t.Data) }},
		"data that a frame has the room for": {true, func(_ *Instance, t *tensor.Tensor) { t.Data = t.Data[:64]; t.Shape[0] = 64 }},
	} {
		two := newFake(t, nil)
		if c.able {
			two, _ = borrower(t, nil)
		}
		inst := two.instance(nil)
		in := one.written(number, 0, bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 1<<13))
		buf := in.Buffer
		if c.edit != nil {
			c.edit(inst, &in)
		}
		done := two.execute(t.Context(), inst, request(newAnswers(), in))
		h, _, inputs := two.inputs()
		if e := inputs[0]; !e.Inline() && (e.Segment >= wire.FirstLentSegment || !bytes.Equal(two.read(&e), in.Data)) {
			t.Errorf("%s: %+v", name, e)
		}
		two.sendBody(wire.KindDone, h.ID, nil)
		_ = result(t, done)
		buf.Release()
	}
}

// TestLentSegmentsAreBounded: beyond the bound tensors are copied, and stay so
// until their segment ends.
func TestLentSegmentsAreBounded(t *testing.T) {
	two, inst := borrower(t, nil)
	for n := range segment.MaxLent + 2 {
		arena := segment.NewArena(nil, 0, 0)
		t.Cleanup(arena.Close)
		in := shared(t, arena, 1<<16)
		in.Data[0] = byte(n)
		for range 2 {
			done := two.execute(t.Context(), inst, request(newAnswers(), in))
			h, _, inputs := two.inputs()
			if e := inputs[0]; (e.Segment >= wire.FirstLentSegment) != (n < segment.MaxLent) || two.read(&e)[0] != byte(n) {
				t.Fatalf("%d: %+v", n, e)
			}
			two.sendBody(wire.KindDone, h.ID, nil)
			_ = result(t, done)
		}
		in.Buffer.Release()
	}
}

// TestLentAnswer: the answer to a call lies where the called model put it, until
// the caller lets go of it.
func TestLentAnswer(t *testing.T) {
	one := newFake(t, nil)
	number := one.grow(1 << 20)
	out := one.written(number, 128, bytes.Repeat([]byte{7}, 1<<16))
	out.Name = "OUT"
	f, _ := borrower(t, &fakeHost{infer: func(r *backend.Request) error {
		return r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
	}})
	f.send(f.enc.AppendInfer(nil, 0, 3, 0, 0, &backend.Request{ModelName: "m", ModelVersion: -1}, nil, inline))
	_, body := f.next(wire.KindInferResponses)
	all, _, err := wire.DecodeResponses(wire.KindInferResponses, body)
	if err != nil {
		t.Fatal(err)
	}
	e := all[0].Entries[0]
	if e.Segment != wire.FirstLentSegment || e.Offset != 128 || f.read(&e)[5] != 7 || out.Buffer.References() == 0 {
		t.Errorf("%+v", e)
	}
	f.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
	one.next(wire.KindRelease)
}

// TestReturnedLent: an output may lie in an input that was lent.
func TestReturnedLent(t *testing.T) {
	one := newFake(t, nil)
	two, inst := borrower(t, nil)
	in := one.written(one.grow(1<<20), 0, make([]byte, 1<<16))
	a := newAnswers()
	done := two.execute(t.Context(), inst, request(a, in))
	h, handle, inputs := two.inputs()
	out := tensor.Tensor{Datatype: tensor.Uint8, Shape: in.Shape, Data: in.Data}
	two.send(two.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
		Handle: handle, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{out}, Indices: []int{0},
		Places: []wire.Place{{Segment: inputs[0].Segment}},
	}}))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if got := a.got[0].Outputs[0]; got.Buffer != in.Buffer || len(got.Data) != len(in.Data) {
		t.Errorf("%+v", got)
	}
	a.got[0].Release()
	in.Buffer.Release()
}

// quietGuest is a worker without a model.
type quietGuest struct{ exited chan struct{} }

func (quietGuest) Call(wire.Kind, uint32, json.RawMessage) (any, error) { return nil, nil }
func (quietGuest) Instance(uint32) (g guest.Instance, ok bool)          { return g, false }
func (q quietGuest) Exit()                                              { close(q.exited) }

// TestGuestIsLent: a worker in Go says that it can be lent segments, maps them
// to read and unmaps what is dropped.
func TestGuestIsLent(t *testing.T) {
	control, theirs, err := channel.NewPair("control")
	if err != nil {
		t.Fatal(err)
	}
	descriptors, theirDescriptors, err := channel.NewPair("descriptors")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []interface{ Fd() uintptr }{theirs, theirDescriptors} {
		if err := unix.SetNonblock(int(f.Fd()), false); err != nil {
			t.Fatal(err)
		}
	}
	q := quietGuest{make(chan struct{})}
	g := guest.New(theirs, theirDescriptors, q)
	served := make(chan error, 1)
	go func() { served <- g.Serve() }()
	c, err := NewConn(channel.Ends{Control: control, Descriptors: descriptors}, ConnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if hello, err := c.Hello(ctx); err != nil || !hello.Lent {
		t.Fatalf("%+v, %v", hello, err)
	}
	arena := segment.NewArena(nil, 0, 0)
	in := shared(t, arena, 1<<16)
	in.Data[9] = 9
	at, ok := c.lend(&in)
	mapped := func() []byte { return g.Mapped(at.Segment) }
	c.lock().out.flush()
	c.unlock()
	wait := func(what string, is func() bool) {
		t.Helper()
		for ctx.Err() == nil && !is() {
			time.Sleep(time.Millisecond) // another goroutine's map: there is nothing to wait on
		}
		if !is() {
			t.Fatal(what)
		}
	}
	wait("not mapped", func() bool { return mapped() != nil })
	if data := mapped(); !ok || len(data) < 1<<16 || data[at.Offset+9] != 9 {
		t.Errorf("%v: %d bytes", ok, len(data))
	}
	in.Release()
	arena.Close()
	wait("not unmapped", func() bool { return mapped() == nil })
	c.Exit()
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-q.exited
	_, _ = theirs.Close(), theirDescriptors.Close()
}

// TestPassedOn: the input of a call may lie in an input of the caller's request,
// and the caller's output in the answer to the call, until that is released.
func TestPassedOn(t *testing.T) {
	other := newFake(t, nil)
	out := other.written(other.grow(1<<20), 128, bytes.Repeat([]byte{7}, 1<<16))
	out.Name = "X"
	var f *fakeWorker
	var in tensor.Tensor
	f, inst := borrower(t, &fakeHost{infer: func(r *backend.Request) error {
		got := r.Inputs[0]
		if got.Buffer != in.Buffer || &got.Data[0] != &in.Data[0] || len(got.Data) != len(in.Data) {
			t.Errorf("the call has %+v", got)
		}
		return r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
	}})
	in = shared(t, inst.Arena, 1<<16)
	call := func(id uint64, e *wire.Entry) {
		given := tensor.Tensor{Name: "A", Datatype: tensor.Uint8, Shape: in.Shape, Data: in.Data}
		f.send(f.enc.AppendInfer(nil, 0, id, 0, 0, &backend.Request{ModelName: "m", ModelVersion: -1, Inputs: []tensor.Tensor{given}}, nil,
			placeFunc(func(*tensor.Tensor) wire.Place { return wire.Place{Segment: e.Segment, Offset: e.Offset} })))
	}
	a := newAnswers()
	done := f.execute(t.Context(), inst, request(a, in))
	h, handle, inputs := f.inputs()
	call(3, &inputs[0])
	_, body := f.next(wire.KindInferResponses)
	all, _, err := wire.DecodeResponses(wire.KindInferResponses, body)
	if err != nil {
		t.Fatal(err)
	}
	e := all[0].Entries[0]
	answer := tensor.Tensor{Datatype: tensor.Uint8, Shape: out.Shape, Data: out.Data}
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
		Handle: handle, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{answer}, Indices: []int{0},
		Places: []wire.Place{{Segment: e.Segment, Offset: e.Offset}},
	}}))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if got := a.got[0].Outputs[0]; got.Buffer != out.Buffer || got.Data[5] != 7 || len(got.Data) != 1<<16 {
		t.Errorf("the output is %+v", got)
	}
	f.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
	a.got[0].Release()
	other.next(wire.KindRelease) // after both
	in.Buffer.Release()
	// What the worker has no more it cannot pass on.
	call(4, &inputs[0])
	<-f.conn.Done()
	if err := f.conn.Err(); err == nil || !strings.Contains(err.Error(), "holds no input") {
		t.Errorf("got %v", err)
	}
}
