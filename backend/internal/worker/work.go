package worker

import (
	"context"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// cancelTick is how often requests in flight are looked at for cancellation: cheaper
// than a context callback a request.
const cancelTick = 10 * time.Millisecond

// work is what the worker is there for: its instances and their batches. It is part of
// state.
type work struct {
	out    *outbox
	shared *sharedMemory
	turns  *turns

	instances instances
	batches   inflight.Batches[*Instance]
	place     placement // while a batch is encoded
	watches   []watch
	// contextEnded is called with the Done of a context that has ended while batches of
	// it were there. One value for all of them: a method value is an allocation a batch.
	contextEnded func(<-chan struct{})
	boards       boards

	cancels *time.Timer // looks for cancelled requests; armed while there are any and never otherwise
	armed   bool
}

// instances are those that the worker serves, by number.
type instances map[uint32]*Instance

// encode appends the frame of a batch.
func (w *work) encode(b *batch, id uint64) error {
	i, out := b.Instance, w.out
	w.shared.appendReleases()
	if err := w.shared.handOver(i.Arena); err != nil {
		return err
	}
	begin := len(out.frames)
	w.place = placement{inst: i, shared: w.shared, copies: b.Copies}
	var err error
	if i.Gather {
		out.frames, err = out.enc.AppendExecuteBatch(out.frames, i.Number, id, b.Batch, b.Handles, &i.Tables, &w.place)
	} else {
		out.frames, err = out.enc.AppendExecute(out.frames, i.Number, id, b.Batch.Requests, b.Handles, &i.Tables, &w.place)
	}
	if err == nil {
		err = w.place.err
	}
	w.place = placement{}
	if err != nil {
		out.frames = out.frames[:begin]
	}
	return err
}

// serves returns the Calls of the requests that an instance serves, for Caller.For: of
// the batch that it runs, or of the one request of a decoupled model, whose batch ends
// before its requests do. A worker does not say for which of several it calls.
func (w *work) serves(i *Instance) (all []any) {
	if !i.Decoupled {
		if b := i.pipeline.Only(); b != nil {
			for _, r := range b.Batch.Requests {
				if r.Calls != nil {
					all = append(all, r.Calls)
				}
			}
		}
		return all
	}
	n := 0
	for _, r := range w.batches.Requests() {
		if r.Instance != i {
			continue
		}
		if n++; n > 1 {
			return nil
		}
		if r.Request.Calls != nil {
			all = append(all, r.Request.Calls)
		}
	}
	return all
}

// ended marks the batch as ended and wakes its Execute if that waits. If none waits,
// the caller calls over, without the lock. The reader then goes on reading, since no
// Execute waits that could take its place.
func (w *work) ended(b *batch) {
	w.unwatch(b)
	if !b.Started {
		w.turns.ended(b)
	}
}

// notBegun ends a batch that the worker has not begun, as ended does.
func (w *work) notBegun(b *batch) (copies []*tensor.Buffer) {
	copies = w.batches.NotBegun(b)
	w.limitEnded(b.Instance, b.ID)
	w.ended(b)
	return copies
}

// cancel tells the worker that nobody waits for a request any more.
func (w *work) cancel(handle uint64) {
	if r := w.batches.Request(handle); r != nil && !r.Cancelled {
		r.Cancelled = true
		_ = w.out.append(wire.KindCancel, r.Instance.Number, handle, nil)
	}
}

// cancelSoon has requests looked at for cancellation.
func (w *work) cancelSoon() {
	if !w.armed {
		w.armed = true
		w.cancels.Reset(cancelTick)
	}
}

// sendCancels tells the worker about requests that nobody waits for any more. It is the
// timer's event.
func (w *work) sendCancels() {
	w.armed = false
	if w.out.ended || w.batches.Open() == 0 {
		return
	}
	for handle, r := range w.batches.Requests() {
		if !r.Cancelled && r.Request.Responder != nil && r.Request.Cancelled() {
			w.cancel(handle)
		}
	}
	w.out.flush()
	w.cancelSoon()
}

// watch is a context that Executes run under. The server's is the same for
// all of them, so that watching it costs nothing a batch.
type watch struct {
	done    <-chan struct{}
	batches int
	stop    func() bool
}

// watch calls contextEnded, with the channel of ctx, when that ends while the worker has the
// batch.
func (w *work) watch(ctx context.Context, b *batch) {
	b.Context = ctx.Done()
	if b.Context == nil {
		return
	}
	kept := w.watches[:0]
	found := false
	for _, one := range w.watches {
		switch {
		case one.done == b.Context:
			one.batches++
			found = true
		case one.batches == 0:
			one.stop()
			continue
		}
		kept = append(kept, one)
	}
	w.watches = kept
	if !found {
		done, ended := b.Context, w.contextEnded
		w.watches = append(w.watches, watch{done, 1, context.AfterFunc(ctx, func() { ended(done) })})
	}
}

func (w *work) unwatch(b *batch) {
	for i := range w.watches {
		if w.watches[i].done == b.Context {
			w.watches[i].batches--
		}
	}
}

// unwatchAll stops what watch has begun.
func (w *work) unwatchAll() {
	for _, one := range w.watches {
		one.stop()
	}
	w.watches = nil
}
