package sequence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// fake executes batches and notes them, a request as name:value of its first
// control. It answers with the sum of a sequence's inputs in state S.
type fake struct {
	mu        sync.Mutex
	batches   []string
	instances int
	depth     int
	takes     time.Duration
	limits    *ratelimit.Group
	answer    func(r *infer.Request) // nil: an empty response
}

func (f *fake) Instances() int           { return max(1, f.instances) }
func (f *fake) Limits() *ratelimit.Group { return f.limits }
func (f *fake) Depth() int               { return max(1, f.depth) }

func (f *fake) Insist(_ int, requests []*infer.Request) {
	var words []string
	for _, r := range requests {
		word := r.ID
		if word == "" {
			word = "-"
		}
		for i := range r.Inputs {
			if t := &r.Inputs[i]; t.Name != "IN" {
				word += fmt.Sprintf(" %s=%v", t.Name, t.Data)
			}
		}
		words = append(words, word)
	}
	f.mu.Lock()
	f.batches = append(f.batches, strings.Join(words, "|"))
	f.mu.Unlock()
	time.Sleep(f.takes)
	for _, r := range requests {
		if f.answer != nil {
			f.answer(r)
			continue
		}
		_ = r.Request.Respond(&backend.Response{}, true)
	}
}

// all is the sink of every request of a test.
type all struct {
	mu      sync.Mutex
	answers map[string]string
	order   []string
}

func (a *all) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case resp != nil && resp.Err != nil:
		a.answers[r.ID] = resp.Err.Code.String() + ": " + resp.Err.Message
	case resp != nil:
		a.answers[r.ID] = "ok"
		for i := range resp.Outputs {
			a.answers[r.ID] += fmt.Sprintf(" %v", resp.Outputs[i].Data)
		}
	}
	resp.Release()
	if final {
		a.order = append(a.order, r.ID)
	}
}

// world is a scheduler under test.
type world struct {
	*Scheduler
	fake  *fake
	sink  *all
	ended sync.WaitGroup
}

func newWorld(c *modelconfig.SequenceBatching, size int, f *fake, states ...State) *world {
	if c.MaxIdle == 0 {
		c.MaxIdle = time.Second
	}
	return &world{fake: f, sink: &all{answers: map[string]string{}}, Scheduler: New(Options{
		Config: c, Model: "m", MaxBatchSize: size, Executor: f, Stats: stats.NewVersion(nil), States: states, Allocator: heap{},
	})}
}

type heap struct{}

func (heap) Allocate(n int) (*tensor.Buffer, error) {
	return tensor.NewBuffer(make([]byte, n), nil), nil
}

func (w *world) request(ctx context.Context, id string, corr any, flags backend.Flags) *infer.Request {
	w.ended.Add(1)
	r := infer.New(w.sink, func(*infer.Request) { w.ended.Done() })
	r.ID, r.Ctx, r.Flags, r.BatchSize, r.Background = id, ctx, flags, 1, true
	switch c := corr.(type) {
	case int:
		r.Correlation.Number = uint64(c)
	case string:
		r.Correlation.Text = c
	}
	r.Inputs = []tensor.Tensor{{Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{1, 1}, Data: []byte{1, 0, 0, 0}}}
	return r
}

// send enqueues a request; a refusal becomes its answer.
func (w *world) send(ctx context.Context, id string, corr any, flags backend.Flags) {
	r := w.request(ctx, id, corr, flags)
	if err := w.Enqueue(r); err != nil {
		r.Discard()
		w.sink.mu.Lock()
		w.sink.answers[id] = "refused: " + err.Error()
		w.sink.mu.Unlock()
	}
}

func (w *world) close(t *testing.T) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.ended.Wait()
}

const (
	first = backend.SequenceStart
	last  = backend.SequenceEnd
)

func (w *world) want(t *testing.T, batches []string, answers map[string]string) {
	t.Helper()
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	if got, want := strings.Join(w.fake.batches, "\n"), strings.Join(batches, "\n"); batches != nil && got != want {
		t.Errorf("batches:\n%s\nwant:\n%s", got, want)
	}
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	for id, want := range answers {
		if got := w.sink.answers[id]; got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestControls(t *testing.T) {
	number := func(f, v int32) ([]byte, []byte) {
		return binary.LittleEndian.AppendUint32(nil, uint32(f)), binary.LittleEndian.AppendUint32(nil, uint32(v))
	}
	no, yes := number(3, 4)
	c := &modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}, Controls: []modelconfig.SequenceControl{
		{Input: "S", Kind: "CONTROL_SEQUENCE_START", Datatype: tensor.Int32, False: no, True: yes},
		{Input: "E", Kind: "CONTROL_SEQUENCE_END", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Input: "R", Kind: "CONTROL_SEQUENCE_READY", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
		{Input: "C", Kind: "CONTROL_SEQUENCE_CORRID", Datatype: tensor.Uint32},
	}}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(c, 2, &fake{takes: time.Millisecond})
		w.send(t.Context(), "a1", 1<<32+7, first)
		synctest.Wait()
		w.send(t.Context(), "b1", 8, first|last)
		w.send(t.Context(), "x", "text", first)
		time.Sleep(10 * time.Millisecond)
		w.send(t.Context(), "a2", 1<<32+7, last)
		time.Sleep(10 * time.Millisecond)
		w.close(t)
		w.want(t, []string{
			"a1 S=[4 0 0 0] E=[0] R=[1] C=[7 0 0 0]",
			"- S=[3 0 0 0] E=[0] R=[0] C=[0 0 0 0]|b1 S=[4 0 0 0] E=[1] R=[1] C=[8 0 0 0]",
			"a2 S=[3 0 0 0] E=[1] R=[1] C=[7 0 0 0]",
		}, map[string]string{
			"a1": "ok", "b1": "ok", "a2": "ok",
			"x": "refused: [request id: x] sequence batching control 'C' data-type is 'BYTES', but model 'm' expects 'UINT32'",
		})
	})
}

func TestCorrelationData(t *testing.T) {
	for _, test := range []struct {
		d    tensor.Datatype
		id   backend.CorrelationID
		want string
	}{
		{tensor.Uint64, backend.CorrelationID{Number: 1 << 63}, "\x00\x00\x00\x00\x00\x00\x00\x80"},
		{tensor.Int64, backend.CorrelationID{Number: 5}, "\x05\x00\x00\x00\x00\x00\x00\x00"},
		{tensor.Int32, backend.CorrelationID{Number: 1<<40 + 6}, "\x06\x00\x00\x00"},
		{tensor.Uint32, backend.CorrelationID{Number: 1<<32 - 1}, "\xff\xff\xff\xff"},
		{tensor.Bytes, backend.CorrelationID{Text: "ab"}, "\x02\x00\x00\x00ab"},
		{tensor.Bytes, backend.CorrelationID{}, "\x00\x00\x00\x00"},
	} {
		if got := string(correlationData(test.d, test.id)); got != test.want {
			t.Errorf("%v %v: %q, want %q", test.d, test.id, got, test.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	c := &modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}}
	w := newWorld(c, 2, &fake{})
	for _, test := range []struct {
		change func(r *infer.Request)
		want   string
	}{
		{
			func(r *infer.Request) { r.BatchSize = 2 },
			"inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher",
		},
		{
			func(r *infer.Request) { r.Correlation = backend.CorrelationID{} },
			"inference request to model 'm' must specify a non-zero or non-empty correlation ID",
		},
		{
			func(*infer.Request) {},
			"inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence",
		},
		{
			func(r *infer.Request) { r.Correlation = backend.CorrelationID{Text: "t"} },
			"inference request for sequence t to model 'm' must specify the START flag on the first request of the sequence",
		},
	} {
		r := w.request(t.Context(), "r", 5, 0)
		test.change(r)
		err := w.Enqueue(r)
		var e *backend.Error
		if !errors.As(err, &e) || e.Code != backend.InvalidArg || e.Message != test.want {
			t.Errorf("%v, want %q", err, test.want)
		}
		r.Discard()
	}
	w.close(t)
	r := w.request(t.Context(), "r", 5, first)
	const stopping = "Server is stopping, scheduler for model has stopped accepting new inference requests"
	if err := w.Enqueue(r); err == nil || err.Error() != stopping {
		t.Error(err)
	}
	r.Discard()
}

func TestBacklogTimeoutAndBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{Direct: &modelconfig.DirectStrategy{}}, 0, &fake{takes: time.Second})
		w.core.limit = 2
		w.send(t.Context(), "a1", 1, first)
		r := w.request(t.Context(), "b1", 2, first)
		r.Timeout = 50_000
		if err := w.Enqueue(r); err != nil {
			t.Error(err)
		}
		w.send(t.Context(), "b2", 2, 0)
		w.send(t.Context(), "c1", 3, first)
		began := time.Now()
		for synctest.Wait(); len(w.answers()) < 3; synctest.Wait() {
			time.Sleep(time.Millisecond)
		}
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("expired after %v", d)
		}
		w.send(t.Context(), "b3", 2, 0)
		w.send(t.Context(), "d1", 4, first)
		time.Sleep(3 * time.Second)
		w.close(t)
		const expired = "Unavailable: timeout of the corresponding sequence has been expired"
		w.want(t, []string{"a1", "d1"}, map[string]string{
			"b1": expired, "b2": expired,
			"c1": "refused: [request id: c1] Exceeds maximum queue size: the sequences of model 'm' that wait for a slot have 2 requests",
			"b3": "refused: inference request for sequence 2 to model 'm' must specify the START flag on the first request of the sequence",
		})
	})
}

func (w *world) answers() map[string]string {
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	return maps.Clone(w.sink.answers)
}

// What waits behind another request of its sequence keeps a batch small.
func TestBatchesClosedBySequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []*modelconfig.SequenceBatching{{Direct: &modelconfig.DirectStrategy{}}, {Oldest: &modelconfig.OldestStrategy{}}} {
			w := newWorld(c, 4, &fake{takes: time.Millisecond})
			w.stats.FormsBatches()
			w.send(t.Context(), "a1", 1, first)
			w.send(t.Context(), "a2", 1, 0)
			w.send(t.Context(), "a3", 1, 0)
			w.send(t.Context(), "b1", 2, first)
			time.Sleep(5 * time.Millisecond)
			w.want(t, nil, map[string]string{"a1": "ok", "a2": "ok", "a3": "ok", "b1": "ok"})
			got := w.stats.Snapshot().BatchesClosed
			// a1 alone, a2 and b1 while a3 waits, a3 alone.
			if got[stats.ClosedDrained] != 2 || got[stats.ClosedSequence] != 1 {
				t.Errorf("closed %v", got)
			}
			w.close(t)
		}
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{MaxIdle: 100 * time.Millisecond}, 0, &fake{takes: 150 * time.Millisecond})
		w.send(t.Context(), "a1", 1, first)
		w.send(t.Context(), "b1", 2, first) // waits until a is idle
		time.Sleep(400*time.Millisecond - 1)
		w.want(t, []string{"a1", "b1"}, map[string]string{"a1": "ok", "b1": ""})
		w.send(t.Context(), "a2", 1, 0)
		time.Sleep(time.Second)
		w.close(t)
		w.want(t, nil, map[string]string{
			"b1": "ok",
			"a2": "refused: inference request for sequence 1 to model 'm' must specify the START flag on the first request of the sequence",
		})
		if n := w.Open(); n != 0 {
			t.Errorf("%d open sequences", n)
		}
	})
}

func TestVanishedClientFreesItsSlot(t *testing.T) {
	for _, queued := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(&modelconfig.SequenceBatching{MaxIdle: time.Hour}, 0, &fake{takes: 100 * time.Millisecond})
			ctx, gone := context.WithCancel(t.Context())
			w.send(ctx, "a1", 1, first)
			if queued {
				w.send(ctx, "a2", 1, 0)
				w.send(t.Context(), "a3", 1, 0)
			}
			w.send(t.Context(), "b1", 2, first|last)
			synctest.Wait()
			gone()
			synctest.Wait()
			if queued {
				w.want(t, nil, map[string]string{"a2": "Cancelled: ", "a3": "Cancelled: "})
			}
			time.Sleep(time.Second)
			w.want(t, []string{"a1", "b1"}, map[string]string{"b1": "ok"})
			w.send(t.Context(), "a4", 1, 0)
			w.close(t)
			w.want(t, nil, map[string]string{"a4": "refused: inference request for sequence 1 to model 'm' must specify the START flag on the " +
				"first request of the sequence"})
		})
	}
}

// A connection that ends after the answer has been delivered says nothing about
// the sequence.
func TestContextEndsAfterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{MaxIdle: time.Hour}, 0, &fake{})
		for i := range 3 {
			ctx, done := context.WithCancel(t.Context())
			flags := backend.Flags(0)
			if i == 0 {
				flags = first
			}
			r := w.request(ctx, fmt.Sprint("a", i), 1, flags)
			r.Background = false
			if err := w.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			done()
		}
		w.close(t)
		w.want(t, []string{"a0", "a1", "a2"}, nil)
	})
}

func TestPreserveOrdering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{instances: 2}
		f.answer = func(r *infer.Request) {
			if r.ID == "a1" {
				time.Sleep(time.Second)
			}
			_ = r.Request.Respond(&backend.Response{}, true)
		}
		c := &modelconfig.SequenceBatching{Oldest: &modelconfig.OldestStrategy{PreserveOrdering: true}}
		w := newWorld(c, 1, f)
		w.send(t.Context(), "a1", 1, first)
		w.send(t.Context(), "b1", 2, first)
		w.send(t.Context(), "b2", 2, last)
		time.Sleep(time.Millisecond)
		if got := w.answers(); len(got) != 0 {
			t.Errorf("before its turn: %v", got)
		}
		time.Sleep(2 * time.Second)
		w.close(t)
		if got := strings.Join(w.sink.order, " "); got != "a1 b1 b2" {
			t.Error(got)
		}
	})
}

func TestCloseAnswersWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{}, 0, &fake{takes: time.Second})
		w.send(t.Context(), "a1", 1, first)
		w.send(t.Context(), "a2", 1, 0)
		w.send(t.Context(), "b1", 2, first)
		synctest.Wait()
		w.close(t)
		const stopping = "Unavailable: Server is stopping, scheduler for model has stopped accepting new inference requests"
		w.want(t, []string{"a1"}, map[string]string{"a1": "ok", "a2": stopping, "b1": stopping})
	})
}

// wait lets the sequences become idle for too long.
func (w *world) wait(t *testing.T) {
	t.Helper()
	time.Sleep(2 * time.Second)
	if n := w.Open(); n != 0 {
		t.Errorf("%d sequences are still open", n)
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&modelconfig.SequenceBatching{MaxIdle: time.Minute}, 4, &fake{takes: time.Millisecond})
		w.send(t.Context(), "a1", 1, first)
		w.send(t.Context(), "b1", 2, first)
		synctest.Wait()
		over, began := w.Stop(), time.Now()
		w.send(t.Context(), "c1", 3, first)
		w.send(t.Context(), "a2", 1, last)
		select {
		case <-over:
			t.Error("over with an open sequence")
		case <-time.After(time.Second):
		}
		<-over // b is given up
		if d := time.Since(began).Round(time.Second); d != time.Minute {
			t.Errorf("after %v", d)
		}
		if w.Stop() != over {
			t.Error("another channel")
		}
		w.close(t)
		w.want(t, nil, map[string]string{
			"a1": "ok", "b1": "ok", "a2": "ok",
			"c1": "refused: Server is stopping, scheduler for model has stopped accepting new inference requests",
		})
	})
}

// A model whose process has died has forgotten its sequences: they end instead
// of going on with wrong answers. Implicit state stays.
func TestLostLife(t *testing.T) {
	for _, states := range [][]State{nil, {stateOf(1)}} {
		synctest.Test(t, func(t *testing.T) {
			f, life := &fake{}, uint64(1)
			f.answer = func(r *infer.Request) {
				r.Batch = &backend.Batch{Life: life}
				_ = r.Request.Respond(&backend.Response{}, true)
			}
			w := newWorld(&modelconfig.SequenceBatching{}, 0, f, states...)
			send := func(id string, flags backend.Flags) {
				w.send(t.Context(), id, 1, flags)
				synctest.Wait()
			}
			send("a1", first)
			send("a2", 0)
			life++
			send("a3", 0)
			send("a4", 0)
			send("a5", first)
			send("a6", 0)
			w.close(t)
			want := map[string]string{"a2": "ok", "a3": "ok", "a4": "ok", "a6": "ok"}
			if states == nil {
				want["a3"] = "Unavailable: sequence 1 of model '' has lost its state: the process that kept it has ended"
				want["a4"] = "refused: inference request for sequence 1 to model 'm' must specify the START flag on the first request of the sequence"
			}
			w.want(t, nil, want)
		})
	}
}
