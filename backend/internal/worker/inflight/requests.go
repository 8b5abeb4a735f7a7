package inflight

import (
	"iter"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/tensor"
)

// Request is a request that the worker has and has not finally answered.
type Request[I any] struct {
	Request   *backend.Request
	Instance  I
	Sent      bool // a response was delivered
	Cancelled bool // CANCEL was sent
	Stream    *stream.Stream
	Copies    []*tensor.Buffer // inputs that were copied into shared memory

	generation uint32
}

// untouched reports whether the worker has answered nothing of it.
func (r *Request[I]) untouched() bool { return !r.Sent && r.Stream == nil }

// requests gives requests their handles: an index into slots, and a generation that
// makes a stale handle recognisable.
type requests[I any] struct {
	slots []Request[I]
	free  []uint32
	live  int
}

func (t *requests[I]) add(r *backend.Request, instance I) uint64 {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, Request[I]{})
	}
	s := &t.slots[i]
	s.generation++
	s.Request, s.Instance = r, instance
	t.live++
	return s.handle(i)
}

func (r *Request[I]) handle(i uint32) uint64 { return uint64(r.generation)<<32 | uint64(i) }

// find returns the request of a handle, or nil.
func (t *requests[I]) find(handle uint64) *Request[I] {
	i := uint32(handle)
	if uint64(i) >= uint64(len(t.slots)) {
		return nil
	}
	s := &t.slots[i]
	if s.Request == nil || s.generation != uint32(handle>>32) {
		return nil
	}
	return s
}

// remove forgets a request, whose copies are the caller's, and reports whether there
// was one.
func (t *requests[I]) remove(handle uint64) (copies []*tensor.Buffer, ok bool) {
	s := t.find(handle)
	if s == nil {
		return nil, false
	}
	copies = s.Copies
	*s = Request[I]{generation: s.generation}
	t.free = append(t.free, uint32(handle))
	t.live--
	return copies, true
}

// all yields every request with its handle. It may be changed meanwhile, not removed.
func (t *requests[I]) all() iter.Seq2[uint64, *Request[I]] {
	return func(yield func(uint64, *Request[I]) bool) {
		for i := range t.slots {
			if s := &t.slots[i]; s.Request != nil && !yield(s.handle(uint32(i)), s) {
				return
			}
		}
	}
}
