package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/tensor"
)

// requestState is a request that the worker has and has not finally answered.
type requestState struct {
	req        *backend.Request
	inst       *Instance
	generation uint32
	sent       bool // a response was delivered
	cancelled  bool // CANCEL was sent
	stream     *stream.Stream
	copies     []*tensor.Buffer // inputs that were copied into shared memory
}

// requestTable gives requests their handles: a place in slots, and a
// generation that makes a stale handle recognisable.
type requestTable struct {
	slots []requestState
	free  []uint32
	live  int
}

func (t *requestTable) add(r *backend.Request, inst *Instance) uint64 {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, requestState{})
	}
	s := &t.slots[i]
	s.generation++
	s.req, s.inst = r, inst
	t.live++
	return uint64(s.generation)<<32 | uint64(i)
}

// find returns the request of a handle, or nil.
func (t *requestTable) find(handle uint64) *requestState {
	i := uint32(handle)
	if uint64(i) >= uint64(len(t.slots)) {
		return nil
	}
	s := &t.slots[i]
	if s.req == nil || s.generation != uint32(handle>>32) {
		return nil
	}
	return s
}

func (t *requestTable) remove(handle uint64) {
	s := t.find(handle)
	if s == nil {
		return
	}
	*s = requestState{generation: s.generation}
	t.free = append(t.free, uint32(handle))
	t.live--
}
