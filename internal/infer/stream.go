package infer

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
)

// Stream is the sink of a request with any number of responses, read one after
// the other by the front end's goroutine. A response for which there is no room
// makes its giver wait: a slow reader slows the model.
type Stream struct {
	// Ledger, if not nil, counts the responses that wait. One for which there is no
	// room becomes an error.
	Ledger *ledger.Ledger
	// By is for whom it counts.
	By ledger.Asker

	ctx  context.Context
	room chan struct{} // one for each response in items
	wake chan struct{} // there is something to read; one place is enough

	mu      sync.Mutex
	items   []waiting
	final   bool // no response follows those in items
	refusal error
}

// waiting is a response that nobody has read yet.
type waiting struct {
	resp *backend.Response
	room ledger.Room
}

// NewStream returns a sink that holds up to room responses, at least 1, and
// waits for more room as long as ctx lives, which has to be the request's.
func NewStream(ctx context.Context, room int) *Stream {
	return &Stream{ctx: ctx, room: make(chan struct{}, max(1, room)), wake: make(chan struct{}, 1)}
}

// Deliver keeps the response until it is read.
func (s *Stream) Deliver(_ *Request, resp *backend.Response, final bool) {
	if resp != nil {
		select {
		case s.room <- struct{}{}:
		case <-s.ctx.Done():
			resp.Release()
			resp = nil
		}
	}
	var room ledger.Room
	if resp != nil && s.Ledger != nil {
		// An error for which there is no room waits all the same: a request over HTTP has
		// few responses that wait.
		resp, room, _, _ = Count(s.Ledger, s.By, resp, 0)
	}
	s.mu.Lock()
	s.final = s.final || final
	if resp != nil {
		s.items = append(s.items, waiting{resp, room})
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the reader has not looked since the last time
	}
}

// perResponse is what a response holds beside its tensors and texts, about.
const perResponse = 512

// Count counts a response among the answers that wait: its tensors, the text of an
// error, what it holds by itself, and so many bytes besides. resp may be nil, for
// a mark. One with tensors for which there is no room is released, and an error
// that says so takes its place; false says that there is no room for an error or a
// mark either, whose bound that was, and that nothing has been counted.
func Count(l *ledger.Ledger, by ledger.Asker, resp *backend.Response, besides int64) (_ *backend.Response, _ ledger.Room, why ledger.Reason,
	ok bool,
) {
	n := size(resp) + besides
	on, why, ok := l.TakeWhole(ledger.Out, by, n)
	if tensors := Bytes(resp); !ok && tensors > 0 {
		resp.Release()
		resp = &backend.Response{Err: l.RefusalFor(ledger.Out, why, tensors)}
		n = size(resp) + besides
		on, why, ok = l.TakeWhole(ledger.Out, by, n)
	}
	if !ok {
		return resp, ledger.Room{}, why, false
	}
	return resp, ledger.Room{On: on, By: by, Bytes: n}, why, true
}

// size is what a response holds; resp may be nil.
func size(resp *backend.Response) int64 {
	n := Bytes(resp) + perResponse
	if resp != nil && resp.Err != nil {
		n += int64(len(resp.Err.Message))
	}
	return n
}

// Bytes returns the bytes of a response's tensors; resp may be nil.
func Bytes(resp *backend.Response) (n int64) {
	if resp != nil {
		for i := range resp.Outputs {
			n += int64(len(resp.Outputs[i].Data))
		}
	}
	return n
}

// Refuse ends the stream of a request that the engine has not taken.
func (s *Stream) Refuse(err error) {
	s.mu.Lock()
	s.refusal = err
	s.mu.Unlock()
	s.Deliver(nil, nil, true)
}

// Refusal returns what Refuse was called with, once Next has returned nil.
func (s *Stream) Refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

// Next waits for the next response, which is the caller's to release. It
// returns nil after the last one and when ctx has ended.
func (s *Stream) Next() *backend.Response {
	for {
		resp, final := s.take()
		if resp != nil || final {
			return resp
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return nil
		}
	}
}

// take returns the oldest response, or nil and whether none will follow.
func (s *Stream) take() (resp *backend.Response, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) == 0 {
		return nil, s.final
	}
	first := s.items[0]
	s.items[0] = waiting{}
	s.items = s.items[1:]
	<-s.room
	first.room.Give(s.Ledger)
	return first.resp, false
}

// Waiting reports whether Next has a response at once.
func (s *Stream) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items) > 0
}

// Drain drops what is left and returns after the final response: an answer is
// owed also to a cancelled request, so that no memory is in use when the front
// end lets go of it. End ctx before, or it waits for all that the model has to
// say.
func (s *Stream) Drain() {
	for {
		resp, final := s.take()
		switch {
		case resp != nil:
			resp.Release()
		case final:
			return
		default:
			<-s.wake
		}
	}
}

var _ Sink = (*Stream)(nil)
