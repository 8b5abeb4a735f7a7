package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// await waits for the final response.
func (a *answers) await(t *testing.T) *backend.Response {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.got) == 0 {
		return nil
	}
	return a.got[len(a.got)-1]
}

func TestTimeoutAnswersWhileTheWorkerStillHasTheBatch(t *testing.T) {
	for _, gather := range []bool{false, true} {
		f := newFake(t, nil)
		inst := f.instance(func(i *Instance) { i.Gather, i.Timeout = gather, 10*time.Millisecond })
		a := newAnswers()
		kind := wire.KindExecute
		if gather {
			kind = wire.KindExecuteBatch
		}
		done := f.execute(t.Context(), inst, request(a, fp32("IN", tensor.Shape{1, 5000})))
		h, body := f.next(kind)
		if resp := a.await(t); resp == nil || resp.Err == nil || !strings.Contains(resp.Err.Message, "timed out after 10ms") {
			t.Fatalf("got %+v", resp)
		}
		if inst.Overdue() != 1 {
			t.Errorf("overdue %d, want 1", inst.Overdue())
		}
		select {
		case err := <-done:
			t.Fatalf("Execute returned %v: the inputs are no longer safe", err)
		default:
		}
		// Late answers are dropped.
		if gather {
			out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1}, Data: []byte{1}}
			f.send(f.enc.AppendResultBatch(nil, 0, h.ID, wire.FlagEnds, []tensor.Tensor{out}, []int{0}, nil))
		} else {
			blocks, _ := wire.DecodeExecute(body)
			f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds,
				[]wire.Outgoing{{Handle: blocks[0].Handle, Flags: wire.ResponseFinal}}))
		}
		if err := result(t, done); err != nil {
			t.Error(err)
		}
		if inst.Overdue() != 0 {
			t.Errorf("overdue %d after the return", inst.Overdue())
		}
	}
}

func TestTimeoutThatIsNotReached(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.Gather, i.Timeout = true, time.Hour })
	a := newAnswers()
	done := f.execute(t.Context(), inst, request(a))
	h, _ := f.next(wire.KindExecuteBatch)
	out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1}, Data: []byte{1}}
	f.send(f.enc.AppendResultBatch(nil, 0, h.ID, wire.FlagEnds, []tensor.Tensor{out}, []int{0}, nil))
	if err := result(t, done); err != nil || a.await(t).Err != nil {
		t.Errorf("%v, %+v", err, a.got)
	}
	a.got[0].Release()
}

func TestStuckBatchIsGivenUpAlone(t *testing.T) {
	f := newFakeWith(t, ConnOptions{KeepStuck: true})
	inst := f.instance(func(i *Instance) { i.Gather = true })
	ctx, cancel := context.WithCancel(t.Context())
	a := newAnswers()
	stuck := f.execute(ctx, inst, request(a))
	first, _ := f.next(wire.KindExecuteBatch)
	cancel()
	f.next(wire.KindCancel)
	if err := result(t, stuck); err == nil || !strings.Contains(err.Error(), "did not come back") {
		t.Fatalf("got %v", err)
	}
	if !inst.Stuck() {
		t.Error("not stuck while its batch is out")
	}
	// The connection goes on, and what comes late for the first batch is dropped.
	out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1}, Data: []byte{1}}
	b := newAnswers()
	done := f.execute(t.Context(), inst, request(b))
	second, _ := f.next(wire.KindExecuteBatch)
	for _, id := range []uint64{first.ID, second.ID} {
		f.send(f.enc.AppendResultBatch(nil, 0, id, wire.FlagEnds, []tensor.Tensor{out}, []int{0}, nil))
	}
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	b.await(t).Release()
	if inst.Stuck() {
		t.Error("stuck when everything is back")
	}
}

func TestHeldInputsOfABatch(t *testing.T) {
	f := newFake(t, nil)
	inst := f.instance(func(i *Instance) { i.Gather = true; i.InlineLimit = 4 })
	a := newAnswers()
	done := f.execute(t.Context(), inst, request(a))
	h, body := f.next(wire.KindExecuteBatch)
	block, err := wire.DecodeExecuteBatch(body)
	if err != nil {
		t.Fatal(err)
	}
	out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{1, 1}, Data: []byte{1}}
	f.send(f.enc.AppendResultBatch(nil, 0, h.ID, wire.FlagEnds|wire.FlagHeld, []tensor.Tensor{out}, []int{0}, nil))
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	a.await(t).Release()
	key := wire.Block{Segment: block.Inputs[0].Segment, Offset: block.Inputs[0].Offset}
	held := func() int {
		f.conn.mu.Lock()
		defer f.conn.mu.Unlock()
		return len(f.conn.state.shared.ledger.Held(key))
	}
	if held() != 1 {
		t.Fatalf("held %d times, want 1", held())
	}
	f.sendBody(wire.KindRelease, 0, wire.AppendRelease(nil, []wire.Block{key})[wire.HeaderSize:])
	f.call(wire.KindControl, 9, map[string]any{"op": "is_ready", "model": "there"}) // what came before has been handled
	if held() != 0 {
		t.Errorf("held %d times after RELEASE", held())
	}
}

func TestServe(t *testing.T) {
	f := newFake(t, &fakeHost{})
	if kind, got := f.call(wire.KindBind, 1, map[string]string{}); kind != wire.KindFailed || got["message"] == "" {
		t.Errorf("without Serve: %s %v", kind, got)
	}
	f = newFakeWith(t, ConnOptions{Host: &fakeHost{}, Serve: func(_ context.Context, kind wire.Kind, body json.RawMessage) (any, error) {
		return map[string]any{"kind": kind.String(), "body": body}, nil
	}})
	for _, kind := range []wire.Kind{wire.KindBind, wire.KindUnbind, wire.KindControl} {
		ready, got := f.call(kind, 2, map[string]string{"op": "server"})
		if ready != wire.KindReady || got["kind"] != kind.String() {
			t.Errorf("%s: %s %v", kind, ready, got)
		}
	}
	if ready, got := f.call(wire.KindControl, 3, map[string]any{"op": "is_ready", "model": "there", "version": -1}); ready != wire.KindReady ||
		got["ready"] != true {
		t.Errorf("is_ready: %s %v", ready, got)
	}
}
