package worker

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

func result(t *testing.T, c chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(time.Minute):
		t.Fatal("Execute does not return")
		return nil
	}
}

func TestBatchShape(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.Gather = true })
	a, b := newAnswers(), newAnswers()
	ra, rb := request(a), request(b)
	ra.BatchSize, rb.BatchSize = 2, 1
	done := f.execute(t.Context(), inst, ra, rb)
	h, body := f.next(wire.KindExecuteBatch)
	block, err := wire.DecodeExecuteBatch(body)
	if err != nil || block.Total != 3 || len(block.Handles) != 2 || block.Inputs[0].Shape[0] != 3 {
		t.Fatalf("%+v: %v", block, err)
	}
	out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{3, 1}, Data: []byte{1, 2, 3}}
	f.send(f.enc.AppendResultBatch(nil, 0, h.ID, wire.FlagEnds, []tensor.Tensor{out}, []int{0}, nil))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	if got := a.got[0].Outputs[0].Data; !bytes.Equal(got, []byte{1, 2}) {
		t.Errorf("first rows %v", got)
	}
	if got := b.got[0].Outputs[0].Data; !bytes.Equal(got, []byte{3}) {
		t.Errorf("last row %v", got)
	}
	a.got[0].Release()
	b.got[0].Release()

	a = newAnswers()
	done = f.execute(t.Context(), inst, request(a))
	h, _ = f.next(wire.KindExecuteBatch)
	f.send(wire.AppendDone(nil, 0, h.ID, "RuntimeError: boom", ""))
	err = result(t, done)
	if err == nil || err.Error() != "Failed to process the request(s) for model 'm_0_0', message: RuntimeError: boom" {
		t.Errorf("got %v", err)
	}
}

func TestNoAnswer(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	a := newAnswers()
	done := f.execute(t.Context(), inst, request(a))
	h, _ := f.next(wire.KindExecute)
	f.sendBody(wire.KindDone, h.ID, nil)
	if err := result(t, done); err == nil || !strings.Contains(err.Error(), "without a response to 1 of its requests") {
		t.Errorf("got %v", err)
	}
	a = newAnswers()
	done = f.execute(t.Context(), inst, request(a))
	h, body := f.next(wire.KindExecute)
	blocks, _ := wire.DecodeExecute(body)
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds,
		[]wire.Outgoing{{Handle: blocks[0].Handle, Flags: wire.ResponseFinal | wire.ResponseNone}}))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	if len(a.got) != 1 || a.got[0].Err == nil {
		t.Errorf("a final mark alone gave %v", a.got)
	}
}

// TestOutputMemory lets a worker answer through its own memory: fixed-size
// tensors are views, BYTES are copied, unknown names dropped, and each block
// is released.
func TestOutputMemory(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	a := newAnswers()
	big := fp32("IN", tensor.Shape{4096})
	big.Data[0] = 42
	done := f.execute(t.Context(), inst, request(a, big))
	h, blocks := f.taken()
	in := blocks[0].Inputs[0]
	if got := f.maps[in.Segment][in.Offset]; got != 42 {
		t.Errorf("the copied input has %d", got)
	}
	n := f.grow(1 << 20)
	words := tensor.AppendElement(tensor.AppendElement(nil, "ab"), "c")
	copy(f.maps[n], []byte{1, 2, 3, 4})
	copy(f.maps[n][64:], words)
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
		Handle: blocks[0].Handle, Flags: wire.ResponseFinal, Indices: []int{0, 1, -1},
		Outputs: []tensor.Tensor{
			{Datatype: tensor.Uint8, Shape: tensor.Shape{4}, Data: make([]byte, 4)},
			{Datatype: tensor.Bytes, Shape: tensor.Shape{2}, Data: words},
			{Name: "UNKNOWN", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}},
		},
		Places: []wire.Place{{Segment: n}, {Segment: n, Offset: 64}, {Segment: n, Offset: 128}},
	}}))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	resp := a.got[0]
	if len(resp.Outputs) != 2 || !bytes.Equal(resp.Outputs[0].Data, []byte{1, 2, 3, 4}) || !bytes.Equal(resp.Outputs[1].Data, words) {
		t.Fatalf("outputs %+v", resp.Outputs)
	}
	f.maps[n][0], f.maps[n][64] = 9, 99
	if resp.Outputs[0].Data[0] != 9 || resp.Outputs[1].Data[0] != words[0] {
		t.Error("fixed sizes should be a view, BYTES a copy")
	}
	resp.Release()
	released := map[uint64]bool{}
	for len(released) < 3 { // by themselves: nothing else is sent
		_, body := f.next(wire.KindRelease)
		if err := wire.DecodeRelease(body, func(k wire.Block) { released[k.Offset] = true }); err != nil {
			t.Fatal(err)
		}
	}
	if used := inst.Arena.Used(); used != 0 {
		t.Errorf("%d bytes of input memory are left", used)
	}
}

// TestHeldInputs keeps an input in place beyond the final response, with the
// release after it and before it.
func TestHeldInputs(t *testing.T) {
	for _, early := range []bool{false, true} {
		f := newFake(t, nil)
		inst := f.instance(nil)
		buf, err := inst.Arena.Allocate(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		in := tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1 << 16}, Data: buf.Bytes(), Buffer: buf}
		a := newAnswers()
		done := f.execute(t.Context(), inst, request(a, in))
		h, body := f.next(wire.KindExecute)
		blocks, _ := wire.DecodeExecute(body)
		key := wire.Block{Segment: blocks[0].Inputs[0].Segment, Offset: blocks[0].Inputs[0].Offset}
		release := wire.AppendRelease(nil, []wire.Block{key})
		if early {
			f.send(release, nil)
		}
		f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds,
			[]wire.Outgoing{{Handle: blocks[0].Handle, Flags: wire.ResponseFinal | wire.ResponseRetained}}))
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 2, true: 1}[early]; buf.References() != want {
			t.Errorf("early %v: %d references, want %d", early, buf.References(), want)
		}
		if !early {
			f.send(release, nil)
			f.call(wire.KindControl, 1, wire.ControlBody{Op: "is_ready"}) // the release was read before
		}
		if buf.References() != 1 {
			t.Errorf("early %v: %d references at the end", early, buf.References())
		}
		buf.Release()
	}
}

// TestDecoupled gives responses after the end of the batch; a client that does
// not read holds nobody up until its queue is full.
func TestDecoupled(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.Decoupled = true })
	slow, quick := newAnswers(), newAnswers()
	slow.block = make(chan struct{})
	done := f.execute(t.Context(), inst, request(slow), request(quick))
	h, body := f.next(wire.KindExecute)
	blocks, _ := wire.DecodeExecute(body)
	f.sendBody(wire.KindDone, h.ID, nil)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	for range stream.Room {
		f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, 0, []wire.Outgoing{{Handle: blocks[0].Handle}}))
	}
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, 0,
		[]wire.Outgoing{{Handle: blocks[1].Handle, Flags: wire.ResponseFinal | wire.ResponseNone}}))
	<-quick.done
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, 0, []wire.Outgoing{{Handle: blocks[0].Handle, Flags: wire.ResponseFinal}}))
	close(slow.block)
	<-slow.done
	if len(quick.got) != 0 || len(slow.got) != stream.Room+1 {
		t.Errorf("%d and %d responses", len(quick.got), len(slow.got))
	}
}

// TestEndAnswersEverything closes the channel with batches and streams open.
func TestEndAnswersEverything(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	decoupled := f.instance(func(i *Instance) { i.Decoupled, i.Number = true, 1 })
	a, b := newAnswers(), newAnswers()
	stream := f.execute(t.Context(), decoupled, request(b))
	h, _ := f.next(wire.KindExecute)
	f.sendBody(wire.KindDone, h.ID, nil)
	if err := result(t, stream); err != nil {
		t.Fatal(err)
	}
	done := f.execute(t.Context(), inst, request(a))
	f.next(wire.KindExecute)
	_ = f.fds.Close()
	if err := result(t, done); err == nil {
		t.Error("no error")
	}
	<-b.done
	if b.got[0].Err == nil {
		t.Error("no error on the stream")
	}
	if err := inst.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{request(newAnswers())}}); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestBrokenProtocol ends the connection on each kind of broken frame.
func TestBrokenProtocol(t *testing.T) {
	words := []byte{9, 0, 0, 0, 'x'}
	for _, c := range []struct {
		name string
		out  tensor.Tensor
		at   wire.Place
		idx  int
		want string
	}{
		{
			"unknown segment",
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}},
			wire.Place{Segment: 7, Offset: 0},
			0,
			"segment 7 does not exist",
		},
		{
			"index",
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}},
			wire.Place{Segment: wire.InlineSegment},
			2,
			"output 2 of 2",
		},
		{
			"length",
			tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{2}, Data: []byte{1}},
			wire.Place{Segment: wire.InlineSegment},
			0,
			"expected 8",
		},
		{
			"overflow",
			tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{1 << 62, 4}, Data: nil},
			wire.Place{Segment: wire.InlineSegment},
			0,
			"count exceeds",
		},
		{
			"negative",
			tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{-1}, Data: nil},
			wire.Place{Segment: wire.InlineSegment},
			0,
			"negative",
		},
		{
			"bytes",
			tensor.Tensor{Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: words},
			wire.Place{Segment: wire.InlineSegment},
			0,
			"incomplete string data",
		},
		{
			"bytes count",
			tensor.Tensor{Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: make([]byte, 8)},
			wire.Place{Segment: wire.InlineSegment},
			0, "2 elements for shape [1]",
		},
		{
			"datatype",
			tensor.Tensor{Datatype: 99, Shape: tensor.Shape{1}, Data: []byte{1}},
			wire.Place{Segment: wire.InlineSegment},
			0,
			"99 is unknown",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, nil)
			inst := f.instance(nil)
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, body := f.next(wire.KindExecute)
			blocks, _ := wire.DecodeExecute(body)
			f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
				Handle: blocks[0].Handle, Flags: wire.ResponseFinal, Outputs: []tensor.Tensor{c.out}, Indices: []int{c.idx}, Places: []wire.Place{c.at},
			}}))
			if err := result(t, done); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	a := newAnswers()
	done := f.execute(t.Context(), inst, request(a))
	h, body := f.next(wire.KindExecute)
	blocks, _ := wire.DecodeExecute(body)
	a.mu.Lock()
	a.cancelled = true
	a.mu.Unlock()
	if ch, _ := f.next(wire.KindCancel); ch.ID != blocks[0].Handle {
		t.Errorf("CANCEL of %d, want %d", ch.ID, blocks[0].Handle)
	}
	f.sendBody(wire.KindDone, h.ID, nil)
	_ = result(t, done)
}

// TestContextEnds gives up a worker that does not come back.
func TestContextEnds(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := f.execute(ctx, inst, request(newAnswers()))
	f.next(wire.KindExecute)
	f.wrote()
	cancel()
	f.next(wire.KindCancel)
	if err := result(t, done); err == nil || !strings.Contains(err.Error(), ErrStuck.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestCallsOutOfTheWorker(t *testing.T) {
	host := &fakeHost{metrics: map[string]float64{}}
	f := newFake(t, host)
	f.instance(nil)
	kind, v := f.call(wire.KindMetric, 1, wire.MetricBody{Op: "family", Name: "c", Kind: "counter"})
	if kind != wire.KindReady || v["family"] != 1.0 {
		t.Fatalf("family: %s %v", kind, v)
	}
	for _, labels := range []map[string]string{{"a": "b", "c": "d"}, {"c": "d", "a": "b"}} { // made twice it is the same one
		if kind, v = f.call(wire.KindMetric, 1, wire.MetricBody{Op: "create", Family: 1, Labels: labels}); kind != wire.KindReady ||
			v["metric"] != 2.0 {
			t.Fatalf("create: %s %v", kind, v)
		}
	}
	f.call(wire.KindMetric, 2, wire.MetricBody{Op: "increment", Metric: 2, Value: 2.5})
	if _, v := f.call(wire.KindMetric, 3, wire.MetricBody{Op: "value", Metric: 2}); v["value"] != 2.5 {
		t.Errorf("value: %v", v)
	}
	for id, b := range []wire.MetricBody{
		{Op: "set", Metric: 2},
		{Op: "value", Metric: 9},
		{Op: "nonsense", Metric: 2},
		{Op: "family", Kind: "nonsense"},
		{Op: "create", Family: 9},
		{Op: "release", Family: 9},
		{Op: "family", Name: "taken", Kind: "gauge"},
	} {
		if kind, v := f.call(wire.KindMetric, uint64(id), b); kind != wire.KindFailed || v["message"] == "" {
			t.Errorf("%s: %s %v", b.Op, kind, v)
		}
	}
	f.call(wire.KindMetric, 4, wire.MetricBody{Op: "create", Family: 1})
	f.call(wire.KindMetric, 4, wire.MetricBody{Op: "family", Name: "d", Kind: "histogram"})
	f.call(wire.KindMetric, 4, wire.MetricBody{Op: "create", Family: 4, Buckets: []wire.Number{1, wire.Number(math.Inf(1))}})
	f.call(wire.KindMetric, 5, wire.MetricBody{Op: "release", Family: 1})
	if kind, _ := f.call(wire.KindMetric, 5, wire.MetricBody{Op: "value", Metric: 2}); kind != wire.KindFailed {
		t.Errorf("a metric of a released family: %s", kind)
	}
	if _, v := f.call(wire.KindControl, 6, wire.ControlBody{Op: "is_ready", Model: "there", Version: -1}); v["ready"] != true {
		t.Errorf("is_ready: %v", v)
	}
	if kind, _ := f.call(wire.KindControl, 7, wire.ControlBody{
		Op: "load", Model: "x",
		Files: map[string][]byte{"file:1/x": []byte("data")},
	}); kind != wire.KindReady || host.loaded[0] != "xdata" {
		t.Errorf("load: %s %v", kind, host.loaded)
	}
	about := func(model string) wire.ControlBody {
		return wire.ControlBody{Op: "document", Question: &backend.Question{About: backend.AboutModel, Model: model, Version: 3}}
	}
	if kind, v := f.call(wire.KindControl, 9, about("m")); kind != wire.KindReady ||
		!reflect.DeepEqual(v["document"], map[string]any{"about": "model", "model": "m", "version": 3.0}) {
		t.Errorf("document: %v", v)
	}
	if kind, v := f.call(wire.KindControl, 10, about("secret")); kind != wire.KindFailed || v["message"] != "no such model" ||
		v["code"] != float64(backend.NotFound) {
		t.Errorf("document that fails: %v", v)
	}
	if kind, v := f.call(wire.KindControl, 8, wire.ControlBody{Op: "unload", Model: "x"}); kind != wire.KindFailed ||
		v["message"] != "no such model" {
		t.Errorf("unload: %s %v", kind, v)
	}
	_ = f.fds.Close()
	<-f.conn.Done()
	if host.metrics["released"] != 3 || host.metrics["families released"] != 2 {
		t.Errorf("released: %v, want 3 metrics and 2 families", host.metrics)
	}
}

func TestInfer(t *testing.T) {
	big := make([]byte, 1<<16)
	big[100] = 7
	cancelled := make(chan struct{}, 2) // made once: the race detector does not see that frames order anything
	host := &fakeHost{infer: func(r *backend.Request) error {
		switch r.ModelName {
		case "echo":
			out := r.Inputs[0]
			out.Data, out.Buffer = append([]byte(nil), out.Data...), nil
			return r.Respond(&backend.Response{Outputs: []tensor.Tensor{out, {
				Name: "BIG", Datatype: tensor.Uint8, Shape: tensor.Shape{1 << 16},
				Data: big,
			}}}, true)
		case "many":
			if r.Caller.Single {
				return backend.Errorf(backend.Internal, "decoupled")
			}
			r.Responder.(backend.Pinner).Pinned(3)
			for range 3 {
				_ = r.Respond(&backend.Response{}, false)
			}
			return r.Respond(nil, true)
		case "hang":
			go func() {
				<-r.Ctx.Done()
				cancelled <- struct{}{}
				_ = r.Respond(&backend.Response{Err: backend.Errorf(backend.Cancelled, "cancelled")}, true)
			}()
			return nil
		}
		return backend.Errorf(backend.NotFound, "no model %s", r.ModelName)
	}}
	f := newFake(t, host)
	inst := f.instance(nil)
	responses := func() []wire.DecodedResponse {
		t.Helper()
		_, body := f.next(wire.KindInferResponses)
		all, _, err := wire.DecodeResponses(wire.KindInferResponses, body)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	ask := func(id uint64, model string, decoupled bool) {
		kind := byte(0)
		if decoupled {
			kind = wire.InferWindow
		}
		f.send(f.enc.AppendInfer(nil, 0, id, kind, 0, &backend.Request{
			ModelName: model, ModelVersion: -1,
			Inputs: []tensor.Tensor{fp32("IN", tensor.Shape{2})},
		}, nil, inline))
	}
	ask(1, "echo", false)
	r := responses()[0]
	if r.Handle != 1 || r.Flags != wire.ResponseFinal || len(r.Entries) != 2 || string(r.Entries[0].Name) != "IN" {
		t.Fatalf("%+v", r)
	}
	e := r.Entries[1]
	if e.Inline() || f.maps[e.Segment][e.Offset+100] != 7 {
		t.Errorf("large output %+v", e)
	}
	f.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
	ask(2, "many", true)
	for i := range 4 {
		if r := responses()[0]; (r.Flags&wire.ResponseFinal != 0) != (i == 3) {
			t.Errorf("response %d: flags %d", i, r.Flags)
		}
	}
	ask(3, "many", false)
	if r := responses()[0]; string(r.Message) != "decoupled" {
		t.Errorf("got %s", r.Message)
	}
	ask(4, "unknown", false)
	if r := responses()[0]; r.Code != uint8(backend.NotFound) || string(r.Message) != "no model unknown" {
		t.Errorf("got %+v", r)
	}
	ask(5, "hang", true)
	f.sendBody(wire.KindCancel, 5, nil)
	<-cancelled
	if r := responses()[0]; r.Code != uint8(backend.Cancelled) {
		t.Errorf("got %+v", r)
	}
	if used := inst.Arena.Used(); used != 0 {
		t.Errorf("%d bytes of input memory are left", used)
	}
	ask(6, "hang", true)
	f.call(wire.KindControl, 1, wire.ControlBody{Op: "is_ready"})
	// A call that asks for it is told who serves it, before the first of its answers.
	pinned := func(id uint64, flags byte, model string) {
		f.send(f.enc.AppendInfer(nil, 0, id, wire.InferWindow, flags, &backend.Request{ModelName: model, ModelVersion: -1}, nil, inline))
	}
	pinned(7, wire.InferPinned, "many")
	h, body := f.next(wire.KindPinned)
	if version, err := wire.DecodePinned(body); err != nil || version != 3 || h.ID != 7 {
		t.Errorf("call %d is served by version %d, %v", h.ID, version, err)
	}
	for range 4 {
		responses() // fails for another PINNED
	}
	pinned(8, wire.InferPinned, "unknown")
	responses()
	pinned(9, 0, "many")
	for range 4 {
		responses()
	}
	_ = f.fds.Close() // the worker's death cancels its calls
	<-cancelled
}

// TestWriteLater sends more than the socket takes: nothing waits but the flusher.
func TestWriteLater(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.InlineLimit = 1 << 20 })
	var all []chan error
	for range 16 {
		all = append(all, f.execute(t.Context(), inst, request(newAnswers(), fp32("IN", tensor.Shape{1 << 16}))))
	}
	for range all {
		h, blocks := f.taken()
		f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds,
			[]wire.Outgoing{{Handle: blocks[0].Handle, Flags: wire.ResponseFinal}}))
	}
	for _, c := range all {
		if err := result(t, c); err != nil {
			t.Error(err)
		}
	}
}
