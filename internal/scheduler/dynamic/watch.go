package dynamic

import (
	"context"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
)

// patience is how long a request is queued before its context is watched. Most
// leave the queue sooner, and to have a context call, and not call any more, costs
// more than the rest of queueing. Whoever has given up meanwhile is seen then, or
// when the request is to run.
const patience = time.Millisecond

// young are the requests that are not watched yet, in order of arrival. All is
// guarded by the driver's lock.
type young struct {
	all   []unwatched
	timer *time.Timer // set while there are any
	set   bool
}

type unwatched struct {
	ctx  context.Context
	e    *entry
	life uint64
	at   int64
}

// watchLocked has the end of ctx take the entry out of the queue.
func (s *Scheduler) watchLocked(now int64, ctx context.Context, e *entry) {
	y := &s.young
	y.all = append(y.all, unwatched{ctx, e, e.own.Life, now})
	if y.set {
		return
	}
	y.set = true
	if y.timer == nil {
		y.timer = time.AfterFunc(patience, s.watchOld)
	} else {
		y.timer.Reset(patience)
	}
}

// watchOld is the timer's event.
func (s *Scheduler) watchOld() {
	now := backend.Now()
	s.drive.Lock()
	y := &s.young
	var old []unwatched
	n := 0
	for n < len(y.all) && now-y.all[n].at >= int64(patience) {
		if u := y.all[n]; u.e.own.Life == u.life && u.e.list != nil && u.ctx.Done() != nil {
			old = append(old, u)
		}
		n++
	}
	y.all = slices.Delete(y.all, 0, n)
	if y.set = len(y.all) > 0 && !s.drive.ClosedLocked(); y.set {
		y.timer.Reset(patience)
	}
	s.drive.Unlock()
	for _, u := range old {
		s.watch(u.ctx, u.e, u.life)
	}
}

// watch makes the end of ctx take the entry out of the queue.
func (s *Scheduler) watch(ctx context.Context, e *entry, life uint64) {
	stop := context.AfterFunc(ctx, func() { s.cancel(e, life) })
	s.drive.Lock()
	if e.own.Life == life && e.list != nil {
		e.own.Stop, stop = stop, nil
	}
	s.drive.Unlock()
	if stop != nil {
		stop() // it left the queue meanwhile
	}
}
