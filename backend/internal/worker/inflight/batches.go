package inflight

import (
	"iter"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Batches are those that one worker has. It is guarded by its user's lock. Whatever
// returns buffers leaves their references to the caller, who releases them without the
// lock.
type Batches[I any] struct {
	requests  requests[I]
	sent      map[uint64]*Batch[I]
	expired   map[uint64]Request[I] // answered by a timeout, by handle, while the worker still has them
	abandoned map[uint64]abandoned[I]
}

// abandoned is a batch that was given up.
type abandoned[I any] struct {
	pipeline *Pipeline[I]
	kept     []*tensor.Buffer // what the worker may still read
}

// New returns an empty account.
func New[I any]() Batches[I] {
	return Batches[I]{sent: map[uint64]*Batch[I]{}, expired: map[uint64]Request[I]{}, abandoned: map[uint64]abandoned[I]{}}
}

// Enter gives the requests of a batch their handles.
func (a *Batches[I]) Enter(b *Batch[I]) {
	for _, r := range b.Batch.Requests {
		r.Report = nil // what another worker has said of it, which did not come to answer it
		b.Handles = append(b.Handles, a.requests.add(r, b.Instance))
	}
}

// Refuse takes the handles back: the batch cannot be sent.
func (a *Batches[I]) Refuse(b *Batch[I]) {
	for _, h := range b.Handles {
		a.requests.remove(h)
	}
}

// Sent notes that the batch is on its way to its instance under a number. Copies of
// inputs that are not gathered live as long as their request from now on. It reports
// whether the batch waits behind others.
func (a *Batches[I]) Sent(b *Batch[I], id uint64, p *Pipeline[I], gathered bool) (waits bool) {
	b.ID = id
	a.sent[id] = b
	if !gathered {
		for i := range b.Copies {
			r := a.requests.find(b.Handles[b.Copies[i].Request])
			r.Copies = append(r.Copies, b.Copies[i].Buffer)
		}
		b.DropCopies()
	}
	return p.join(b)
}

// Find returns the batch of a number, nil when the worker does not have it or it was
// abandoned.
func (a *Batches[I]) Find(id uint64) *Batch[I] { return a.sent[id] }

// Request returns the request of a handle that is not finally answered, or nil.
func (a *Batches[I]) Request(handle uint64) *Request[I] { return a.requests.find(handle) }

// Requests yields those that are not finally answered, with their handles.
func (a *Batches[I]) Requests() iter.Seq2[uint64, *Request[I]] { return a.requests.all() }

// Open returns how many requests are not finally answered.
func (a *Batches[I]) Open() int { return a.requests.live }

// Busy reports whether anything of the worker is awaited.
func (a *Batches[I]) Busy() bool { return a.requests.live > 0 || len(a.sent) > 0 }

// Under yields the batches that run under a context.
func (a *Batches[I]) Under(context <-chan struct{}) iter.Seq[*Batch[I]] {
	return func(yield func(*Batch[I]) bool) {
		for _, b := range a.sent {
			if b.Context == context && !yield(b) {
				return
			}
		}
	}
}

// Answered forgets a request that has got its final response, or that is to run again.
func (a *Batches[I]) Answered(handle uint64) (copies []*tensor.Buffer) {
	copies, _ = a.requests.remove(handle)
	return copies
}

// Answering returns the batch of a number, as Find, to which an answer has come: the worker
// has begun it, whether it was recalled or not.
func (a *Batches[I]) Answering(id uint64) *Batch[I] {
	b := a.sent[id]
	if b != nil {
		b.begins()
	}
	return b
}

// Frees notes that the worker can take another batch although this one has not ended.
func (a *Batches[I]) Frees(id uint64) {
	if b := a.sent[id]; b != nil {
		b.pipeline.frees(b)
	}
}

// Finished takes out a batch that the worker has finished. It returns nil when the
// worker does not have it; Returned knows whether it was abandoned. Settle comes next.
func (a *Batches[I]) Finished(id uint64) *Batch[I] {
	b := a.Answering(id)
	if b != nil {
		a.leave(b)
		b.pipeline.next(0)
	}
	return b
}

func (a *Batches[I]) leave(b *Batch[I]) {
	delete(a.sent, b.ID)
	b.pipeline.leave(b)
}

// Settle ends what is left of a batch that was taken out. It returns the copies of its
// inputs, and how many requests had no final response. With later the requests of a
// decoupled model stay: their responses may still come.
func (a *Batches[I]) Settle(b *Batch[I], later bool) (copies []*tensor.Buffer, open int) {
	copies = a.endExpired(b, b.dropCopies())
	if later {
		return copies, 0
	}
	for _, h := range b.Handles {
		if left, ok := a.requests.remove(h); ok {
			open++
			copies = append(copies, left...)
		}
	}
	return copies, open
}

// dropCopies returns the copies that the batch has itself.
func (b *Batch[I]) dropCopies() (copies []*tensor.Buffer) {
	for i := range b.Copies {
		copies = append(copies, b.Copies[i].Buffer)
	}
	b.DropCopies()
	return copies
}

// endExpired forgets what is kept of an expired batch and appends its copies.
func (a *Batches[I]) endExpired(b *Batch[I], copies []*tensor.Buffer) []*tensor.Buffer {
	if !b.expired {
		return copies
	}
	for _, h := range b.Handles {
		copies = append(copies, a.expired[h].Copies...)
		delete(a.expired, h)
	}
	b.pipeline.overdue.Add(-1)
	return copies
}

// Untouched reports whether the worker has answered nothing of a batch. One that
// answers what it has not begun keeps it.
func (a *Batches[I]) Untouched(b *Batch[I]) bool {
	if b.Outputs != nil {
		return false
	}
	if b.expired {
		return true
	}
	for _, h := range b.Handles {
		if r := a.requests.find(h); r == nil || !r.untouched() {
			return false
		}
	}
	return true
}

// Recalled returns the batches of a pipeline after the last one that the worker has
// begun, up to the last one that it was forbidden, of which it has answered nothing.
func (a *Batches[I]) Recalled(p *Pipeline[I], begun, last uint64) (list []*Batch[I]) {
	for _, b := range p.batches {
		if b.ID > begun && b.ID <= last && a.Untouched(b) {
			list = append(list, b)
		}
	}
	return list
}

// NotBegun ends a batch that the worker has not begun, so that it may go elsewhere. One
// that was answered by its timeout has ended with that.
func (a *Batches[I]) NotBegun(b *Batch[I]) (copies []*tensor.Buffer) {
	first := b.pipeline.First() == b
	a.leave(b)
	if first {
		b.pipeline.next(0)
	}
	if !b.expired {
		b.Err = backend.ErrNotBegun
	}
	copies, _ = a.Settle(b, false)
	return copies
}

// Expire notes that the timeout of a batch has passed. It returns nil when there is
// nothing to do any more. ExpireRequest comes next, for each handle.
func (a *Batches[I]) Expire(id uint64) *Batch[I] {
	b := a.sent[id]
	if b == nil || b.expired {
		return nil
	}
	b.expired = true
	b.pipeline.overdue.Add(1)
	return b
}

// ExpireRequest takes out a request that is to be answered by the timeout; false when it
// has its final response. Its inputs stay where they are: the worker may still read them.
func (a *Batches[I]) ExpireRequest(handle uint64) (Request[I], bool) {
	r := a.requests.find(handle)
	if r == nil {
		return Request[I]{}, false
	}
	kept := *r
	a.expired[handle] = kept
	a.requests.remove(handle)
	return kept, true
}

// Late takes a response to a request that was answered by its timeout. When the worker
// is done with it, ok is true and the copies are the caller's.
func (a *Batches[I]) Late(handle uint64, flags uint32) (r Request[I], ok bool) {
	r, ok = a.expired[handle]
	if !ok || flags&(wire.ResponseFinal|wire.ResponseAgain) == 0 {
		return Request[I]{}, false
	}
	delete(a.expired, handle)
	return r, true
}

// Abandon gives up a batch that the worker does not give back. What the worker may still
// read is kept until Returned or Close. It returns nil when the worker does not have the
// batch. Settle comes next.
func (a *Batches[I]) Abandon(id uint64) *Batch[I] {
	b := a.sent[id]
	if b == nil {
		return nil
	}
	a.leave(b)
	b.pipeline.next(0)
	b.pipeline.abandoned++
	kept := []*tensor.Buffer{}
	keep := func(buf *tensor.Buffer) {
		if buf != nil {
			kept = append(kept, buf.Retain())
		}
	}
	inputs := func(list []tensor.Tensor) {
		for i := range list {
			keep(list[i].Buffer)
		}
	}
	inputs(b.Batch.Inputs)
	for i, r := range b.Batch.Requests {
		inputs(r.Inputs)
		if r := a.requests.find(b.Handles[i]); r != nil {
			for _, buf := range r.Copies {
				keep(buf)
			}
		}
		for _, buf := range a.expired[b.Handles[i]].Copies {
			keep(buf)
		}
	}
	for i := range b.Copies {
		keep(b.Copies[i].Buffer)
	}
	a.abandoned[id] = abandoned[I]{b.pipeline, kept}
	return b
}

// Returned notes that the worker has come back from a batch, and returns what was kept
// for it if it had been abandoned.
func (a *Batches[I]) Returned(id uint64) (kept []*tensor.Buffer) {
	b, ok := a.abandoned[id]
	if ok {
		b.pipeline.abandoned--
		delete(a.abandoned, id)
	}
	return b.kept
}

// Close takes out everything, since the worker is gone: the batches, to be settled, and
// what was kept for those that were abandoned.
func (a *Batches[I]) Close() (batches []*Batch[I], kept []*tensor.Buffer) {
	for _, b := range a.sent {
		batches = append(batches, b)
	}
	for _, b := range batches {
		a.leave(b)
	}
	for id := range a.abandoned {
		kept = append(kept, a.Returned(id)...)
	}
	return batches, kept
}
