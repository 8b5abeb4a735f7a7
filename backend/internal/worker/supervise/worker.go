package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
)

// Setup makes a fresh worker ready to execute: it loads the model and creates
// the instance.
type Setup func(ctx context.Context, c *worker.Conn) (*worker.Instance, error)

// Worker is the worker of one instance over all its lives: when the process
// dies, another one is started.
type Worker struct {
	spec    Spec
	setup   Setup
	begin   time.Time
	success atomic.Bool // a batch has ended well since the last death
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	inst    *worker.Instance // nil while there is no worker
	waiting chan struct{}
	retry   bool // a start is under way: worth waiting for
	reason  *backend.Error
	next    time.Duration // when the next one is started, since begin
	plan    restarts
	lives   uint64 // how often it was started anew
	closed  bool

	telling sync.Mutex // held while the state is reported, so that the last report is the state
}

// Start sets up the worker over a session, or launches one when first is nil,
// and keeps it running from then on. It takes over the session.
func Start(ctx context.Context, spec Spec, first *Session, setup Setup) (*Worker, error) {
	w := &Worker{spec: spec, setup: setup, begin: time.Now(), plan: restarts{window: 2 * loopDeaths * max(spec.Limit, spec.LoadLimit)}}
	s := first
	if s == nil {
		var err error
		if s, err = Launch(ctx, spec); err != nil {
			return nil, err
		}
	}
	inst, err := setup(ctx, s.Conn)
	if err != nil {
		if ctx.Err() != nil {
			s.Kill() // it is in the middle of something and would not hear
		} else {
			s.Stop()
		}
		return nil, err
	}
	w.inst, inst.Life = inst, 1
	w.report()
	run, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() { w.supervise(run, s) })
	return w, nil
}

// supervise waits for deaths and starts the worker anew.
func (w *Worker) supervise(ctx context.Context, s *Session) {
	for {
		select {
		case <-s.Conn.Done():
		case <-ctx.Done():
			s.Finish(w.spec.GivenUp)
			return
		}
		reason := s.died(s.Conn.Err())
		// The process has ended. What is left waits for the clients of its streams
		// to take what it sent, for which the next worker need not wait.
		dead := s
		w.wg.Go(func() {
			dead.proc.Sweep()
			dead.Kill()
		})
		w.spec.logger().Error("worker died", slog.String("error", reason.Message))
		delay := w.lost(reason)
		for {
			if !sleep(ctx, delay) {
				return
			}
			w.trying()
			if w.spec.Restarted != nil { // also of a start that fails: else a loop of those would not be counted
				w.spec.Restarted()
			}
			next, inst, err := w.relaunch(ctx)
			if err == nil {
				s = next
				w.found(inst)
				break
			}
			if ctx.Err() != nil {
				return
			}
			w.spec.logger().Error("worker could not be restarted", slog.Any("error", err))
			delay = w.lost(backend.AsError(err))
		}
	}
}

func (w *Worker) relaunch(ctx context.Context) (*Session, *worker.Instance, error) {
	s, err := Launch(ctx, w.spec)
	if err != nil {
		return nil, nil, err
	}
	inst, err := w.setup(ctx, s.Conn)
	if err != nil {
		s.Kill()
		return nil, nil, err
	}
	return s, inst, nil
}

// sleep waits; false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// report says how the instance is.
func (w *Worker) report() {
	if w.spec.Report == nil {
		return
	}
	w.telling.Lock()
	defer w.telling.Unlock()
	w.mu.Lock()
	state := backend.InstanceState{Down: w.comingLocked(), Failing: !w.closed && w.inst == nil && w.plan.loop}
	if w.inst != nil {
		state.Ahead = w.inst.Ahead()
	}
	w.mu.Unlock()
	w.spec.Report(state)
}

// comingLocked reports whether there is no worker but soon will be: a start is
// under way, or the deaths are no crash loop yet.
func (w *Worker) comingLocked() bool {
	switch {
	case w.closed:
		return false
	case w.inst != nil:
		return w.inst.Conn().Err() != nil
	}
	return w.retry || !w.plan.loop
}

// lost notes a death and returns the delay until the next start.
func (w *Worker) lost(reason *backend.Error) time.Duration {
	defer w.report()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.begin)
	delay := w.plan.died(now, w.success.Swap(false))
	w.inst, w.reason, w.retry, w.next = nil, reason, delay == 0, now+delay
	w.wakeLocked()
	return delay
}

func (w *Worker) trying() {
	defer w.report()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retry = true
	w.wakeLocked()
}

func (w *Worker) found(inst *worker.Instance) {
	defer w.report()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan.started(time.Since(w.begin))
	w.lives++
	inst.Life = w.lives + 1
	w.inst, w.retry = inst, false
	w.wakeLocked()
	w.spec.logger().Info("worker restarted")
}

func (w *Worker) wakeLocked() {
	if w.waiting != nil {
		close(w.waiting)
		w.waiting = nil
	}
}

// refuseLocked is the answer to a batch that nobody has begun and nobody will soon:
// it may be sent again when there is another worker.
func (w *Worker) refuseLocked() error {
	if w.reason == nil {
		return worker.ErrEnded
	}
	if w.closed {
		return w.reason
	}
	wait := max(w.next-time.Since(w.begin), minBackoff)
	return &backend.Error{Code: backend.Unavailable, RetryAfter: wait, Message: fmt.Sprintf(
		"The request was not begun: the worker keeps dying, another one is started in %v. %s", wait.Round(minBackoff), w.reason.Message)}
}

// current returns the living instance other than dead. While a start is under
// way it waits for it; else the error says why there is none.
func (w *Worker) current(ctx context.Context, dead *worker.Instance) (*worker.Instance, error) {
	for {
		w.mu.Lock()
		inst := w.inst
		if inst != nil && inst != dead {
			w.mu.Unlock()
			return inst, nil
		}
		if w.closed || inst == nil && !w.retry {
			err := w.refuseLocked()
			w.mu.Unlock()
			return nil, err
		}
		if w.waiting == nil {
			w.waiting = make(chan struct{})
		}
		changed := w.waiting
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Execute runs a batch on the living worker; see backend.Instance. A batch
// that the worker had begun when it died fails with the cause; another one goes
// back to the queue, or, where there is none, to the next worker.
func (w *Worker) Execute(ctx context.Context, batch *backend.Batch) error {
	return w.ExecuteAs(ctx, batch, func(in *worker.Instance) *worker.Instance { return in })
}

// ExecuteAs is Execute for one of several instances of the process: as names it by
// what Setup returned, nil where it is not there.
func (w *Worker) ExecuteAs(ctx context.Context, batch *backend.Batch, as func(*worker.Instance) *worker.Instance) error {
	w.mu.Lock()
	inst, coming := w.inst, w.comingLocked()
	var refusal error
	if inst == nil {
		refusal = w.refuseLocked()
	}
	w.mu.Unlock()
	if w.spec.Report != nil && coming {
		w.report() // the next one comes only when it is there
		return backend.ErrNotBegun
	}
	if batch.Ended != nil && w.spec.Report != nil {
		if refusal != nil {
			return refusal
		}
		if run := as(inst); run != nil {
			return w.start(ctx, inst, run, batch)
		}
	}
	batch.Ended = nil // what has not been begun waits here for the next worker
	var err error
	for {
		if inst == nil {
			if inst, err = w.current(ctx, nil); err != nil {
				return err
			}
		}
		batch.Life = inst.Life
		if run := as(inst); run != nil {
			err = run.Execute(ctx, batch)
		} else {
			err = worker.ErrEnded
		}
		if err != nil && inst.Conn().Err() != nil {
			batch.Life++
			w.report() // before the scheduler sends the next batch
			if w.spec.Report != nil && errors.Is(err, worker.ErrEnded) {
				return backend.ErrNotBegun
			}
		}
		if err == nil {
			if !w.success.Load() {
				w.success.Store(true)
			}
			return nil
		}
		if !errors.Is(err, worker.ErrEnded) && (w.spec.Report != nil || !errors.Is(err, backend.ErrNotBegun)) {
			return err
		}
		if inst, err = w.current(ctx, inst); err != nil {
			return err
		}
	}
}

// start sends a batch that is not waited for to one of the instances of inst's process.
func (w *Worker) start(ctx context.Context, inst, run *worker.Instance, batch *backend.Batch) error {
	batch.Life = inst.Life
	ended := batch.Ended
	batch.Ended = func(err error) {
		if err != nil && inst.Conn().Err() != nil {
			batch.Life++
			w.report()
		}
		if err == nil && !w.success.Load() {
			w.success.Store(true)
		}
		ended(err)
	}
	err := run.Execute(ctx, batch)
	if errors.Is(err, worker.ErrEnded) { // it was not sent
		batch.Life++
		w.report()
		return backend.ErrNotBegun
	}
	return err
}

// Living returns the connection with the process, nil while there is none.
func (w *Worker) Living() *worker.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inst == nil || w.inst.Conn().Err() != nil {
		return nil
	}
	return w.inst.Conn()
}

// Conn returns the connection with the process, and waits for one that is under way.
func (w *Worker) Conn(ctx context.Context) (*worker.Conn, error) {
	inst, err := w.current(ctx, nil)
	if err != nil {
		return nil, err
	}
	return inst.Conn(), nil
}

// Ready returns nil, or why the worker cannot serve.
func (w *Worker) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive := w.inst != nil
	if w.plan.looping(time.Since(w.begin), alive, w.success.Load()) || !alive && !w.retry {
		if w.reason == nil {
			return worker.ErrEnded
		}
		return w.reason
	}
	return nil
}

// Process implements backend.ProcessUser.
func (w *Worker) Process() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inst == nil || w.inst.Conn().Err() != nil {
		return 0
	}
	return w.inst.Conn().PID()
}

// HostMemory implements backend.MemoryUser: the resident memory of the process. What
// it shares with others counts too.
func (w *Worker) HostMemory() uint64 {
	w.mu.Lock()
	inst := w.inst
	w.mu.Unlock()
	if inst == nil {
		return 0
	}
	size := limits.ResidentMemory(inst.Conn().PID())
	if inst.Conn().Err() != nil { // the number may be another's by now
		return 0
	}
	return size
}

// Close lets the worker finalize, ends it in bounded time and waits for it.
func (w *Worker) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.wg.Wait()
		return nil
	}
	w.closed = true
	w.wakeLocked()
	w.mu.Unlock()
	w.report()
	w.stop()
	w.wg.Wait()
	return nil
}
