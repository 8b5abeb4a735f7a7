package worker

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/reader"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// TestReaderStaysAfterCalls: a process that calls the server by itself is read
// also when no batch waits for an answer; one that does not is left alone, so
// that the next Execute reads for itself.
func TestReaderStaysAfterCalls(t *testing.T) {
	for _, calls := range []bool{false, true} {
		f := newFake(t, nil)
		inst := f.instance(nil)
		f.conn.mu.Lock()
		f.conn.state.turns.idle.Stop() // no idle tick decides here
		f.conn.state.turns.election.Arm()
		if calls {
			f.conn.state.turns.election.Called(time.Now().Add(time.Hour))
		}
		f.conn.mu.Unlock()
		for range 3 {
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, _ := f.next(wire.KindExecute)
			f.sendBody(wire.KindDone, h.ID, nil)
			_ = result(t, done) // nobody answered the request, which is not the point
		}
		f.conn.mu.Lock()
		for !calls && f.conn.state.turns.election.Reading() { // the background goroutine may be about to yield the part
			f.conn.mu.Unlock()
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, _ := f.next(wire.KindExecute)
			f.sendBody(wire.KindDone, h.ID, nil)
			_ = result(t, done)
			f.conn.mu.Lock()
		}
		if got := f.conn.state.turns.election.Reading(); got != calls {
			t.Errorf("calls=%v: the channel is read: %v", calls, got)
		}
		f.conn.mu.Unlock()
	}
}

// alone makes an INFER frame one of a worker that sends nothing more before the
// answer.
func alone(frame []byte, err error) ([]byte, error) {
	if err == nil {
		frame[wire.HeaderSize+1] = 1
	}
	return frame, err
}

// TestLoneCallRunsOnTheExecute: the call of a worker that waits for nothing else
// is made by the Execute that waits for the worker, and the channel is read all
// the same when the call takes long. Other calls are made beside it.
func TestLoneCallRunsOnTheExecute(t *testing.T) {
	type call struct {
		onExecute bool
		request   *backend.Request
	}
	called, release := make(chan call), make(chan struct{})
	host := &fakeHost{metrics: map[string]float64{}, infer: func(r *backend.Request) error {
		stack := make([]byte, 16<<10)
		stack = stack[:runtime.Stack(stack, false)]
		called <- call{bytes.Contains(stack, []byte("(*Conn).await")), r}
		<-release // as an Execute of the called model would
		return r.Respond(&backend.Response{}, true)
	}}
	f := newFake(t, host)
	inst := f.instance(nil)
	// The idle tick, which gives the background goroutine the reader's part, comes
	// during the call and at no other time, however slow the machine is.
	tick, none := f.conn.state.turns.idle, time.NewTimer(time.Hour)
	defer none.Stop()
	hold := func() {
		f.conn.mu.Lock()
		for f.conn.state.turns.election.Armed() { // it may be on its way
			f.conn.mu.Unlock()
			time.Sleep(time.Millisecond)
			f.conn.mu.Lock()
		}
		f.conn.state.turns.idle = none
		f.conn.mu.Unlock()
	}
	let := func() {
		f.conn.mu.Lock()
		f.conn.state.turns.idle = tick
		f.conn.state.turns.election.Arm()
		tick.Reset(reader.IdleRead)
		f.conn.mu.Unlock()
	}
	hold()
	unread := func() bool {
		f.conn.mu.Lock()
		defer f.conn.mu.Unlock()
		return !f.conn.state.turns.election.Reading()
	}
	ask := func(id uint64) ([]byte, error) {
		return f.enc.AppendInfer(nil, 0, id, 0, 0, &backend.Request{ModelName: "other", ModelVersion: -1}, nil, inline)
	}
	for id, test := range []struct {
		name string
		send func(id uint64) ([]byte, error)
		want bool
	}{
		{"alone", func(id uint64) ([]byte, error) { return alone(ask(id)) }, true},
		{"not alone", ask, false},
	} {
		// Until the background goroutine does not read, so that the next Execute does.
		for begun := false; !begun || !unread(); begun = true {
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, _ := f.next(wire.KindExecute)
			f.sendBody(wire.KindDone, h.ID, nil)
			_ = result(t, done)
		}
		done := f.execute(t.Context(), inst, request(newAnswers()))
		h, _ := f.next(wire.KindExecute)
		f.send(test.send(uint64(id)))
		if got := <-called; got.onExecute != test.want {
			t.Errorf("%s: on the goroutine of the Execute: %v", test.name, got.onExecute)
		}
		let()
		if kind, _ := f.call(wire.KindMetric, 100, wire.MetricBody{Op: "family", Name: "c", Kind: "counter"}); kind != wire.KindReady {
			t.Errorf("%s: the channel is not read during the call: %s", test.name, kind)
		}
		hold()
		release <- struct{}{}
		if answer, _ := f.next(wire.KindInferResponses); answer.ID != uint64(id) {
			t.Errorf("%s: answer to %d", test.name, answer.ID)
		}
		f.conn.mu.Lock()
		f.conn.state.turns.election.Called(time.Time{}) // METRIC is a call too
		f.conn.mu.Unlock()
		f.sendBody(wire.KindDone, h.ID, nil)
		_ = result(t, done)
	}
}

// TestDeathDuringALoneCall: the end of the worker ends its call and then its
// batch, although the Execute that would notice is busy with the call.
func TestDeathDuringALoneCall(t *testing.T) {
	called := make(chan struct{})
	f := newFake(t, &fakeHost{metrics: map[string]float64{}, infer: func(r *backend.Request) error {
		close(called)
		<-r.Ctx.Done()
		return r.Respond(&backend.Response{Err: backend.Errorf(backend.Cancelled, "cancelled")}, true)
	}})
	inst := f.instance(nil)
	done := f.execute(t.Context(), inst, request(newAnswers()))
	f.next(wire.KindExecute)
	f.send(alone(f.enc.AppendInfer(nil, 0, 1, 0, 0, &backend.Request{ModelName: "other", ModelVersion: -1}, nil, inline)))
	<-called
	_ = f.fds.Close()
	if err := result(t, done); err == nil {
		t.Error("no error")
	}
}

// TestChainedBatch: a batch that another model waits for, whose answer the
// reader asks for again and again, ends as any other: answered, cancelled, too
// late or with its worker.
func TestChainedBatch(t *testing.T) {
	for _, test := range []struct {
		name    string
		timeout time.Duration
		meet    func(f *fakeWorker, a *answers, cancel func(), batch, handle uint64)
		fails   bool
	}{
		{"answered", 0, func(f *fakeWorker, _ *answers, _ func(), batch, handle uint64) {
			f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, batch, wire.FlagEnds,
				[]wire.Outgoing{{Handle: handle, Flags: wire.ResponseFinal | wire.ResponseNone}}))
		}, false},
		{"cancelled", 0, func(f *fakeWorker, _ *answers, cancel func(), batch, handle uint64) {
			cancel()
			if h, _ := f.next(wire.KindCancel); h.ID != handle {
				f.t.Errorf("cancels %d", h.ID)
			}
			f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, batch, wire.FlagEnds,
				[]wire.Outgoing{{Handle: handle, Flags: wire.ResponseFinal | wire.ResponseNone}}))
		}, false},
		{"too late", time.Millisecond, func(f *fakeWorker, a *answers, _ func(), batch, _ uint64) {
			<-a.done // by the server
			f.sendBody(wire.KindDone, batch, nil)
		}, false},
		{"dead", 0, func(f *fakeWorker, _ *answers, _ func(), _, _ uint64) { _ = f.fds.Close() }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, nil)
			f.conn.opts.Grace = time.Minute
			inst := f.instance(func(i *Instance) { i.Timeout = test.timeout })
			for range 3 { // some of them are not asked for
				ctx, cancel := context.WithCancel(t.Context())
				a := newAnswers()
				r := request(a)
				r.Caller.Waits = true
				done := f.execute(ctx, inst, r)
				h, body := f.next(wire.KindExecute)
				blocks, _ := wire.DecodeExecute(body)
				test.meet(f, a, cancel, h.ID, blocks[0].Handle)
				if err := result(t, done); (err != nil) != test.fails {
					t.Errorf("got %v", err)
				}
				cancel()
				if test.fails {
					return
				}
				<-a.done
			}
		})
	}
}
