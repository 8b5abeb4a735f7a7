package sequence

import (
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// answer stands between the backend and a request: it keeps state, and knows
// whether the client was gone, or the request is to run again, when the request
// was done. Once the final response has been handed on the request itself may
// not be touched any more.
type answer struct {
	next    backend.Responder
	request *infer.Request
	states  *states
	state   *state
	life    uint64

	// On which life of its instance the sequence has run so far, 0 for none, and on
	// which this request did.
	lived uint64
	runs  atomic.Uint64

	iterative bool
	final     atomic.Bool
	again     atomic.Bool
	vanished  atomic.Bool

	// Of an iterative request: it leaves its slot when it has been executed and
	// answered, or rescheduled, in whatever order; or executed, and is known not to
	// come back.
	over     atomic.Bool
	mu       sync.Mutex
	settled  bool
	executed func()
}

// begin is called before each execution.
func (a *answer) begin() {
	a.again.Store(false)
	a.over.Store(false)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = false
}

// settle says that the backend owes nothing more for this execution.
func (a *answer) settle() {
	a.mu.Lock()
	a.settled = true
	f := a.executed
	a.executed = nil
	a.mu.Unlock()
	if f != nil {
		f()
	}
}

// whenSettled reports whether the backend owes nothing more; if it does, f is
// called when that ends.
func (a *answer) whenSettled(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.settled {
		a.executed = f
	}
	return a.settled
}

// Respond implements backend.Responder.
func (a *answer) Respond(resp *backend.Response, final bool) error {
	if a.final.Load() {
		resp.Release()
		return infer.ErrEnded
	}
	if a.states != nil {
		a.states.keep(a.state, a.life, resp)
	}
	lost := a.lost()
	if lost && resp != nil && resp.Err == nil {
		resp.Err = backend.Errorf(backend.Unavailable, "sequence %s of model '%s' has lost its state: the process that kept it has ended",
			name(a.request.Correlation), a.request.ModelName)
	}
	if final {
		a.vanished.Store(lost || a.request.Cancelled())
		a.final.Store(true)
	}
	err := a.next.Respond(resp, final)
	if final && a.iterative {
		a.settle()
	}
	return err
}

// lost reports whether the model has forgotten what came before in the
// sequence, because its process is another one. With implicit state the server
// keeps it.
func (a *answer) lost() bool {
	b := a.request.Batch
	if b == nil || b.Life == 0 || a.states != nil {
		return false
	}
	a.runs.Store(b.Life)
	return a.lived != 0 && a.lived != b.Life
}

// Cancelled implements backend.Responder.
func (a *answer) Cancelled() bool { return a.next.Cancelled() }

// Answered implements infer.Held.
func (a *answer) Answered() bool { return a.final.Load() || a.again.Load() }

// Settle implements backend.Iterations.
func (a *answer) Settle(again bool) { a.over.Store(!again) }

// Reschedule implements backend.Iterations.
func (a *answer) Reschedule() error {
	if a.final.Load() {
		return infer.ErrEnded
	}
	a.again.Store(true)
	a.settle()
	return nil
}
