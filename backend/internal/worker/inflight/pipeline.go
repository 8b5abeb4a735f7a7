package inflight

import (
	"math"
	"slices"
	"sync/atomic"
)

// Pipeline is what one instance has been sent and has not given back, in the order in
// which it was sent.
type Pipeline[I any] struct {
	ahead     bool // batches may be sent ahead: those behind the first one wait
	batches   []*Batch[I]
	abandoned int
	overdue   atomic.Int32 // may be asked without the lock

	sent      uint64 // how many it has ever been sent
	seen      uint64 // the last batch that the worker had begun at the last look
	seenFirst uint64 // the first one of the pipeline then
	seenPlace uint64 // how many had been begun, as far as was known then
	seenSent  uint64 // how many had been sent then
	recalled  uint64 // the worker has been forbidden all up to this one that it has not begun
}

// NewPipeline returns that of a new instance. ahead says that batches are sent to it
// before it can begin them.
func NewPipeline[I any](ahead bool) *Pipeline[I] { return &Pipeline[I]{ahead: ahead} }

// Len returns how many batches the instance has.
func (p *Pipeline[I]) Len() int { return len(p.batches) }

// First returns the oldest batch, nil for none.
func (p *Pipeline[I]) First() *Batch[I] {
	if len(p.batches) == 0 {
		return nil
	}
	return p.batches[0]
}

// Running reports whether the worker has a batch of the instance, and whether the
// requests of the one that it runs have all been cancelled.
func (p *Pipeline[I]) Running() (running, cancelled bool) {
	if len(p.batches) == 0 {
		return false, false
	}
	for _, r := range p.batches[0].Batch.Requests {
		if r.Responder == nil || !r.Cancelled() {
			return true, false
		}
	}
	return true, true
}

// Only returns the batch that the worker runs; nil where it runs none, or may run several.
func (p *Pipeline[I]) Only() *Batch[I] {
	if len(p.batches) == 0 || len(p.batches) > 1 && !p.batches[1].waits {
		return nil
	}
	return p.batches[0]
}

// Overdue returns how many batches have not come back before their timeout. It needs
// no lock.
func (p *Pipeline[I]) Overdue() int { return int(p.overdue.Load()) }

// Stuck reports whether a batch was abandoned, or has not come back before its timeout,
// and is still not back.
func (p *Pipeline[I]) Stuck() bool { return p.overdue.Load() > 0 || p.abandoned > 0 }

// Begun notes that the worker has begun all batches up to a number.
func (p *Pipeline[I]) Begun(last uint64) {
	for _, b := range p.batches {
		if b.ID > last {
			break
		}
		b.begins()
	}
}

// frees notes that the worker can take another batch although b has not ended: its
// model answers later.
func (p *Pipeline[I]) frees(b *Batch[I]) {
	if at := slices.Index(p.batches, b); at >= 0 {
		p.next(at + 1)
	}
	if progress := b.Batch.Progress; progress != nil {
		progress.Frees()
	}
}

// Look compares the pipeline with what it was at the last look, when the worker has
// begun all up to a number. The pipeline has at least one batch. held says that the
// worker runs something else and may hold the answer to the first one: it has given
// none since. late says that it has begun nothing since although there is something to
// begin, or so little that the last one of those that have waited since would do so for
// another longestLine looks: what waits can be taken back.
func (p *Pipeline[I]) Look(begun uint64) (held, late bool) {
	p.Begun(begun)
	first, last := p.batches[0].ID, p.batches[len(p.batches)-1].ID
	stays := first == p.seenFirst
	held = stays && begun > first
	late = stays && begun == p.seen && begun < last
	if place, waiting := p.place(begun); waiting > 0 {
		came := place - p.seenPlace
		waiting = min(waiting, p.seenSent-min(place, p.seenSent)) // others have just come
		late = late || came > 0 && waiting > longestLine*came
		p.seenPlace = place
	}
	p.seenSent = p.sent
	p.seen, p.seenFirst = begun, first
	return held, late
}

// longestLine is in how many looks the worker has to be able to begin what waits, at the
// rate at which it has begun others since the last one. What was sent ahead to a quick
// model that has become slow would wait there long, and another instance may be idle.
const longestLine = 10

// place returns how many batches have been begun, by the place of the first one that
// waits, and how many wait.
func (p *Pipeline[I]) place(begun uint64) (place, waiting uint64) {
	at := slices.IndexFunc(p.batches, func(b *Batch[I]) bool { return b.ID > begun })
	if at < 0 {
		return 0, 0
	}
	return p.batches[at].place, uint64(len(p.batches) - at)
}

// Recall forbids the worker what it has not begun: all up to the number that it
// returns; 0 where the pipeline is empty.
func (p *Pipeline[I]) Recall() (last uint64) {
	if len(p.batches) == 0 {
		return 0
	}
	p.recalled = p.batches[len(p.batches)-1].ID
	for _, b := range p.batches {
		if b.waits {
			b.Batch.Progress.Recalled()
		}
	}
	return p.recalled
}

// RecallAll forbids the worker everything, at the end of its connection.
func (p *Pipeline[I]) RecallAll() { p.recalled = math.MaxUint64 }

// Recalled reports whether the worker has been forbidden a batch that it has not begun.
func (p *Pipeline[I]) Recalled(id uint64) bool { return id <= p.recalled }

// join appends a batch that is sent.
func (p *Pipeline[I]) join(b *Batch[I]) (waits bool) {
	b.pipeline, b.place = p, p.sent
	p.sent++
	p.batches = append(p.batches, b)
	if progress := b.Batch.Progress; progress != nil {
		progress.Taken()
	}
	if !p.ahead || len(p.batches) == 1 {
		return false
	}
	if progress := b.Batch.Progress; progress != nil {
		b.waits = true
		progress.Waits()
	}
	return true
}

// leave takes out a batch. Without a next one it has begun what it was given.
func (p *Pipeline[I]) leave(b *Batch[I]) {
	if at := slices.Index(p.batches, b); at >= 0 {
		p.batches = slices.Delete(p.batches, at, at+1)
	}
}

// next notes that the worker goes on with a batch, by its place: the one before it has
// ended, or leaves its answers for later. What has been recalled the worker may refuse;
// the board says so.
func (p *Pipeline[I]) next(at int) {
	if at < len(p.batches) && !p.Recalled(p.batches[at].ID) {
		p.batches[at].begins()
	}
}
