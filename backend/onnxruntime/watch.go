package onnxruntime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
)

// watchEvery is how often runs are looked at: a run that nobody waits for any
// more goes on for at most about twice as long.
const watchEvery = 50 * time.Millisecond

// watch ends runs whose requests have all been cancelled. It has one timer for
// all instances of the backend, armed only while they run.
type watch struct {
	armed atomic.Bool
	mu    sync.Mutex
	all   map[*instance]struct{}
	timer *time.Timer
	ended bool
}

// running is what one instance runs.
type running struct {
	mu         sync.Mutex
	ctx        context.Context
	requests   []*backend.Request // nil: nothing runs
	ran        bool               // since the last look
	terminated bool
}

func (w *watch) add(in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*instance]struct{}{}
		w.timer = time.AfterFunc(watchEvery, w.look)
		w.armed.Store(true)
	}
	w.all[in] = struct{}{}
}

func (w *watch) remove(in *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, in)
}

// close ends the watch; no look is under way when it returns.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// begin notes that an instance starts to run a batch for these requests.
func (w *watch) begin(ctx context.Context, in *instance, requests []*backend.Request) {
	r := &in.running
	r.mu.Lock()
	r.ctx, r.requests, r.ran = ctx, requests, true
	r.mu.Unlock()
	if !w.armed.Load() {
		w.arm()
	}
}

func (w *watch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended && w.timer != nil && w.armed.CompareAndSwap(false, true) {
		w.timer.Reset(watchEvery)
	}
}

// end notes the end of the run and says whether it was cut short.
func (in *instance) end() (terminated bool) {
	r := &in.running
	r.mu.Lock()
	terminated = r.terminated
	r.ctx, r.requests, r.terminated = nil, nil, false
	r.mu.Unlock()
	if terminated {
		in.session.env.table[fnRunOptionsUnsetTerminate].Call(in.options)
	}
	return terminated
}

// look ends what nobody waits for, and looks again while something runs.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.armed.Store(false) // a run that begins from here on arms it
	busy := false
	for in := range w.all {
		busy = in.look() || busy
	}
	if busy && w.armed.CompareAndSwap(false, true) {
		w.timer.Reset(watchEvery)
	}
}

// look says whether the instance runs or has run since the last time.
func (in *instance) look() bool {
	r := &in.running
	r.mu.Lock()
	defer r.mu.Unlock()
	ran := r.ran || r.requests != nil
	r.ran = false
	if r.requests == nil || r.terminated {
		return ran
	}
	if r.ctx.Err() == nil {
		for _, q := range r.requests {
			if !q.Cancelled() {
				return ran
			}
		}
	}
	r.terminated = true
	in.session.env.table[fnRunOptionsSetTerminate].Call(in.options)
	return ran
}
