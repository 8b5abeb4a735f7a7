package ensemble

import (
	"context"
	"log/slog"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// Host is what ensembles ask of the server.
type Host interface {
	// Pin keeps a model version (-1: the latest) loaded until its Unpin.
	Pin(model string, version int64) (Target, error)
	// Holding returns the version of a model where a sequence has begun, pinned, if that
	// is another one than the pinned target; else nil.
	Holding(model string, target Target, id backend.CorrelationID) Target
	// Infer is hop 2. An error is a refusal; then the request has been discarded
	// and its sink is never called.
	Infer(r *infer.Request) error
	// Ready returns nil, or why a model version is not ready.
	Ready(model string, version int64) error
	// Allocator gives memory where a model version wants its inputs, or nil.
	Allocator(model string, version int64) tensor.Allocator
	// Labels returns the class labels of an output of a model version, or nil.
	Labels(model string, version int64, output string) []string
}

// Target is a model version that is pinned.
type Target interface {
	Config() *modelconfig.Config
	// NewRequest returns a request that answers into sink. It has a pin of its
	// own, which ends with it.
	NewRequest(sink infer.Sink) *infer.Request
	// TakesDevice reports whether inputs may lie on a GPU.
	TakesDevice() bool
	Unpin()
}

// Options say what to schedule and with what.
type Options struct {
	Graph  *Graph
	Host   Host
	Stats  *stats.Version
	Logger *slog.Logger
}

// Scheduler runs the requests of one ensemble. It has no queue: a request
// begins at once.
type Scheduler struct {
	o      Options
	g      *Graph
	limits []*limiter // by step; nil without max_inflight_requests
	pool   sync.Pool  // of *run

	mu      sync.Mutex
	closed  bool
	runs    map[*run]struct{}
	passed  []uint64      // by edge
	drained chan struct{} // closed when closed and without runs
}

// New returns a scheduler.
func New(o Options) *Scheduler {
	s := &Scheduler{o: o, g: o.Graph, runs: map[*run]struct{}{}, passed: make([]uint64, o.Graph.edges), drained: make(chan struct{})}
	if o.Logger == nil {
		s.o.Logger = slog.New(slog.DiscardHandler)
	}
	if n := o.Graph.inflight; n > 0 {
		for range o.Graph.steps {
			s.limits = append(s.limits, &limiter{free: n})
		}
	}
	return s
}

// Enqueue runs the request on the calling goroutine, which also takes the
// answers of the steps; see scheduler.Scheduler.
func (s *Scheduler) Enqueue(r *infer.Request) error {
	if r.Cancelled() {
		r.Fail(scheduler.ErrCancelled(), infer.Canceled)
		return nil
	}
	x, _ := s.pool.Get().(*run)
	if x == nil {
		x = newRun(s)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return scheduler.ErrStopping(r)
	}
	x.begin(r)
	s.runs[x] = struct{}{}
	s.mu.Unlock()

	x.drive()

	s.mu.Lock()
	delete(s.runs, x)
	s.tallyLocked(x)
	if s.closed && len(s.runs) == 0 {
		close(s.drained)
	}
	s.mu.Unlock()
	x.reset()
	s.pool.Put(x)
	return nil
}

// Change implements scheduler.Scheduler: an ensemble has no instances.
func (s *Scheduler) Change(_, _ []int, _ func(int)) (bound []int) { return nil }

// Close refuses new requests and cancels the steps of those that run; they are
// answered once their steps have ended.
func (s *Scheduler) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if len(s.runs) == 0 {
			close(s.drained)
		}
	}
	for x := range s.runs {
		x.cancel(errStopping)
	}
	s.mu.Unlock()
	select {
	case <-s.drained:
		return nil
	case <-ctx.Done():
		return backend.Errorf(backend.Unavailable, "ensemble '%s' still waits for its steps", s.g.name)
	}
}
