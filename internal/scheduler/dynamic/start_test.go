package dynamic

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// starter is an executor that starts batches, and ends them when it is told.
type starter struct {
	fake
	mu      sync.Mutex
	started []string
	ends    []func()
	refuses bool // each batch is answered at once
	refused sync.WaitGroup
}

func (*starter) Starts() bool { return true }

func (s *starter) Start(_ int, batch []*infer.Request, ended func(begun bool)) {
	var ids []string
	batch = slices.Clone(batch)
	for _, r := range batch {
		r.Hold()
		ids = append(ids, r.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, strings.Join(ids, " "))
	answer := func() {
		for _, r := range batch {
			_ = r.Request.Respond(&backend.Response{}, true)
			r.Drop()
		}
	}
	end := func() {
		answer()
		ended(true)
	}
	if s.refuses {
		s.refused.Go(end)
		return
	}
	s.ends = append(s.ends, end)
}

// end ends the oldest batch.
func (s *starter) end() {
	s.mu.Lock()
	end := s.ends[0]
	s.ends = s.ends[1:]
	s.mu.Unlock()
	end()
}

// TestDetachedRequestsAreStarted: who must not wait sends its batch off by itself, and who sees the end of one sends off the next.
func TestDetachedRequestsAreStarted(t *testing.T) {
	f := &starter{fake: fake{instances: 1}}
	v := stats.NewVersion(nil)
	s := New(Options{Config: &modelconfig.DynamicBatching{}, MaxBatchSize: 2, Executor: f, Stats: v})
	l := &log{}
	send := func(id string, bytes int) {
		r := infer.New(l, nil)
		r.ID, r.Ctx, r.Detached, r.Background = id, t.Context(), true, true
		r.Inputs = []tensor.Tensor{{Datatype: tensor.Uint8, Shape: tensor.Shape{int64(bytes)}, Data: make([]byte, bytes)}}
		if err := s.Enqueue(r); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		send(id, 8)
	}
	want := func(started ...string) {
		t.Helper()
		if !slices.Equal(f.started, started) {
			t.Errorf("started %q, want %q", f.started, started)
		}
	}
	want("a")
	f.end()
	want("a", "b c")
	f.end()
	want("a", "b c", "d")
	f.end()
	f.refuses = true
	send("e", 8)
	f.refused.Wait()
	want("a", "b c", "d", "e")
	if len(f.batches) != 0 {
		t.Errorf("%q were waited for", f.batches)
	}
	send("large", mostStarted+1) // to be copied by a goroutine that may wait
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want("a", "b c", "d", "e")
	if !slices.Equal(f.batches, []string{"large"}) {
		t.Errorf("%q were waited for", f.batches)
	}
	if len(l.lines) != 6 || v.Snapshot().Pending != 0 {
		t.Errorf("%d were answered, %d are pending", len(l.lines), v.Snapshot().Pending)
	}
}

// apart is a sink that no Enqueue may answer: a program holds a lock while it sends, perhaps, which answers need.
type apart struct {
	log
	t *testing.T
}

func (a *apart) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, ".Enqueue") {
			a.t.Errorf("%s was answered by who sends", r.ID)
		}
	}
	a.log.Deliver(r, resp, final)
}

// TestWhoSendsAnswersNothing: neither its own request nor those of others that are over by then.
func TestWhoSendsAnswersNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		late func(s *Scheduler, cancel func()) // what becomes of a before c is sent
		want string                            // becomes of a
	}{
		{"expired", func(s *Scheduler, _ func()) {
			defer s.drive.Unlock()
			s.drive.Lock()
			s.core.deadlines[0].deadline = math.MinInt64
		}, "Request timeout expired"},
		{"cancelled", func(_ *Scheduler, cancel func()) { cancel() }, "CANCELED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &starter{fake: fake{instances: 1}}
				s := New(Options{Config: &modelconfig.DynamicBatching{
					PreferredBatchSizes: []int{3}, MaxQueueDelay: time.Hour, DefaultPolicy: modelconfig.QueuePolicy{DefaultTimeout: 2 * time.Hour},
				}, MaxBatchSize: 3, Executor: f, Stats: stats.NewVersion(nil)})
				l := &apart{log: log{start: time.Now()}, t: t}
				send := func(ctx context.Context, id string) {
					r := infer.New(l, nil)
					r.ID, r.Ctx, r.Detached, r.Background = id, ctx, true, true
					if err := s.Enqueue(r); err != nil {
						t.Error(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				send(ctx, "a")
				send(t.Context(), "b")
				test.late(s, cancel)
				send(t.Context(), "c")
				synctest.Wait()
				if len(l.lines) != 1 || !strings.Contains(l.lines[0], " a ") || !strings.Contains(l.lines[0], test.want) {
					t.Errorf("answers: %q", l.lines)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
