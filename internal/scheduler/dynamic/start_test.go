package dynamic

import (
	"slices"
	"strings"
	"sync"
	"testing"

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
	refuses bool // each batch is given back at once
}

func (*starter) Starts() bool { return true }

func (s *starter) Start(_ int, batch []*infer.Request, ended func(begun bool)) (started, begun bool) {
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
	if s.refuses {
		answer()
		return false, true
	}
	s.ends = append(s.ends, func() {
		answer()
		ended(true)
	})
	return true, false
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
