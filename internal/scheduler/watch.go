package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Patience is how long a request is queued before WatchLater watches its context.
// Most leave the queue sooner, and to have a context call, and not call any more,
// costs more than the rest of queueing. Whoever has given up meanwhile is seen
// then, or when the request is to run.
const Patience = time.Millisecond

// unwatched are the requests that are not watched yet, in order of arrival. All is
// guarded by the driver's lock.
type unwatched[E any] struct {
	all   []watched[E]
	timer *time.Timer
	set   bool // the timer is
}

// watched is an entry whose context is to be watched. It has another life once it
// has been used again.
type watched[E any] struct {
	ctx  context.Context
	e    *E
	w    *Waiting
	life uint64
	at   int64
}

// WatchLaterLocked is Watch, for an entry that is still queued after Patience.
func (d *Driver[E]) WatchLaterLocked(now int64, ctx context.Context, e *E, w *Waiting) {
	u := &d.unwatched
	u.all = append(u.all, watched[E]{ctx, e, w, w.Life, now})
	if u.set {
		return
	}
	u.set = true
	if u.timer == nil {
		u.timer = time.AfterFunc(Patience, d.watchOld)
	} else {
		u.timer.Reset(Patience)
	}
}

// watchOld is the timer's event.
func (d *Driver[E]) watchOld() {
	now := backend.Now()
	d.mu.Lock()
	u := &d.unwatched
	var old []watched[E]
	n := 0
	for n < len(u.all) && now-u.all[n].at >= int64(Patience) {
		if x := &u.all[n]; d.queuedLocked(x.e, x.w, x.life) && x.ctx.Done() != nil {
			old = append(old, *x)
		}
		n++
	}
	u.all = slices.Delete(u.all, 0, n)
	if u.set = len(u.all) > 0 && !d.closed; u.set {
		u.timer.Reset(Patience)
	}
	d.mu.Unlock()
	for _, x := range old {
		d.watch(x)
	}
}

// Watch has the end of ctx cancel an entry, whose life it was, if it is queued. The
// caller does not hold the lock.
func (d *Driver[E]) Watch(ctx context.Context, e *E, w *Waiting, life uint64) {
	d.watch(watched[E]{ctx: ctx, e: e, w: w, life: life})
}

func (d *Driver[E]) watch(x watched[E]) {
	stop := context.AfterFunc(x.ctx, func() { d.cancel(x) })
	d.mu.Lock()
	if d.queuedLocked(x.e, x.w, x.life) {
		x.w.Stop, stop = stop, nil
	}
	d.mu.Unlock()
	if stop != nil {
		stop() // it left the queue meanwhile
	}
}

// cancel says that nobody waits for the answer of a queued entry any more.
func (d *Driver[E]) cancel(x watched[E]) {
	d.mu.Lock()
	if d.closed || !d.queuedLocked(x.e, x.w, x.life) {
		d.mu.Unlock()
		return
	}
	d.End(d.on.Cancel(backend.Now(), x.e, &d.fx), nil)
}

// queuedLocked reports whether an entry is in the queue, in the life in which it
// was to be watched.
func (d *Driver[E]) queuedLocked(e *E, w *Waiting, life uint64) bool {
	return w.Life == life && d.on.Queued(e)
}
