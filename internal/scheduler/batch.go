package scheduler

import (
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
)

// Batch is a set of entries of a batcher's queue on its way to an instance.
type Batch[E any] struct {
	Instance int
	// Entries are in the order in which the model gets them. Nil stands for a slot of
	// a sequence batcher without a request.
	Entries []*E
	Size    int // the sum of the requests' sizes, for the dynamic batcher
	Reason  stats.Closing
	Sent    int64  // when it was formed, for the dynamic batcher
	Asked   bool   // the rate limiter has been asked for it
	Back    bool   // the instance has not begun it
	Placed  func() // to be told when it is in the channel of the instance's worker; may be nil
	Late    int    // entries that come back after the batch has ended
	Next    *Batch[E]

	// Requests is the loop's: those of the entries that somebody still waits for.
	Requests []*infer.Request
	// Ended is the loop's too: what it is told by of the end of a batch that it has
	// started. It is made once.
	Ended func(begun bool)
}

// Reset empties the batch for its next use; it keeps its memory. Who forms the next
// one says where it goes, how large it is, when and why.
func (x *Batch[E]) Reset() {
	clear(x.Entries)
	clear(x.Requests)
	x.Entries, x.Requests = x.Entries[:0], x.Requests[:0]
	x.Asked, x.Back, x.Late, x.Next, x.Placed = false, false, 0, nil, nil
}

// Effects is what is to be done after an event, in linked lists so that nothing
// is allocated for them.
type Effects[E any] struct {
	First, last *Batch[E] // to execute, in order
	// Failed are to be answered without being executed: the first and the last of
	// them, linked by the batcher, in order.
	Failed, LastFailed *E
	Ordered            []*E            // sequences: whose turn it has become, where responses keep that order
	Asks               bool            // the batcher wants to run something for which the rate limiter must be asked
	Withdraws          bool            // it does not want any more what it has asked for
	Turns              ratelimit.Turns // to tell
	// After is to be called without the lock.
	After []func()
}

// Send adds a batch to those that are to be executed.
func (fx *Effects[E]) Send(x *Batch[E]) {
	if fx.last == nil {
		fx.First = x
	} else {
		fx.last.Next = x
	}
	fx.last = x
}

// take takes the first batch out.
func (fx *Effects[E]) take() *Batch[E] {
	x := fx.First
	if x != nil {
		if fx.First = x.Next; fx.First == nil {
			fx.last = nil
		}
	}
	return x
}

// settled reports whether nothing is left to do when the batches have been handed
// out.
func (fx *Effects[E]) settled() bool {
	return fx.Failed == nil && fx.Ordered == nil && fx.After == nil && fx.Turns.None()
}

// FreeList keeps values for their next use.
type FreeList[T any] struct{ free []*T }

// Take returns a value that was put back, or a new one.
func (l *FreeList[T]) Take() *T {
	n := len(l.free) - 1
	if n < 0 {
		return new(T)
	}
	v := l.free[n]
	l.free[n] = nil
	l.free = l.free[:n]
	return v
}

// Put takes a value back.
func (l *FreeList[T]) Put(v *T) { l.free = append(l.free, v) }

// Waiting is what a batcher's loop knows of a request in the queue. The batcher
// itself does not look at it.
type Waiting struct {
	Life    uint64      // how often the entry has been used, so that late events are told apart
	Stop    func() bool // ends the watch of the request's context
	Pending bool        // it is counted as pending
	Ticket  *Ticket
}

// Reused is what an entry's next use begins with.
func (w *Waiting) Reused() Waiting { return Waiting{Life: w.Life + 1} }

// Left ends what being queued means.
func (w *Waiting) Left(v *stats.Version) {
	if w.Stop != nil {
		w.Stop()
		w.Stop = nil
	}
	if w.Pending {
		v.Dequeued()
		w.Pending = false
	}
}

// Skip gives up the turn of the request among those whose responses keep an order.
func (w *Waiting) Skip() {
	if w.Ticket != nil {
		w.Ticket.Skip()
	}
}
