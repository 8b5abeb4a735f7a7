package grpcapi

import (
	"sync"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// modelQueues run the requests of one stream. The engine may execute a request on the
// goroutine that brings it, and the reader must not wait for that: a later
// request may be for another model or instance. Still a model with one instance
// has to see a stream's requests in the order in which they were sent, since
// models may keep state from one to the next.
type modelQueues struct {
	work sync.WaitGroup
	mu   sync.Mutex
	busy map[*model.Model]*modelQueue
}

// modelQueue is the line in front of a model with one instance. It exists while a
// goroutine serves it.
type modelQueue struct{ waiting []queuedRequest }

type queuedRequest struct {
	r *infer.Request
	c *streamInference
}

// run hands r to the engine: on the caller's goroutine where a batcher takes it
// over at once, in order where there is one instance or a sequence, else at
// once.
func (l *modelQueues) run(cfg *modelconfig.Config, m *model.Model, r *infer.Request, c *streamInference) {
	switch {
	case cfg.Dynamic != nil || cfg.Sequence != nil:
		r.Background = true // the stream's next request must not wait for the batch
		c.infer(r)
	case instances(cfg) > 1 && r.Correlation.IsZero():
		l.work.Go(func() { c.infer(r) })
	default:
		l.inOrder(m, queuedRequest{r, c})
	}
}

// instances counts those of a configuration; ensembles have none, and count as
// many.
func instances(cfg *modelconfig.Config) int {
	if cfg.Ensemble != nil {
		return 2
	}
	n := 0
	for i := range cfg.Groups {
		n += cfg.Groups[i].Count * max(1, len(cfg.Groups[i].GPUs))
	}
	return n
}

func (l *modelQueues) inOrder(m *model.Model, q queuedRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.busy[m]; a != nil {
		a.waiting = append(a.waiting, q)
		return
	}
	if l.busy == nil {
		l.busy = map[*model.Model]*modelQueue{}
	}
	a := &modelQueue{}
	l.busy[m] = a
	l.work.Go(func() { l.serve(m, a, q) })
}

// serve runs the requests of a queue until there is none.
func (l *modelQueues) serve(m *model.Model, a *modelQueue, q queuedRequest) {
	for {
		q.c.infer(q.r)
		l.mu.Lock()
		if len(a.waiting) == 0 {
			delete(l.busy, m)
			l.mu.Unlock()
			return
		}
		q = a.waiting[0]
		a.waiting[0] = queuedRequest{}
		a.waiting = a.waiting[1:]
		l.mu.Unlock()
	}
}

// wait returns when all requests have been handed over.
func (l *modelQueues) wait() { l.work.Wait() }
