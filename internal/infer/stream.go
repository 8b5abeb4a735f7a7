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

	ctx  context.Context
	room chan struct{} // one for each response in items
	wake chan struct{} // there is something to read; one place is enough

	mu      sync.Mutex
	items   []*backend.Response
	final   bool // no response follows those in items
	refusal error
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
	resp = s.count(resp)
	s.mu.Lock()
	s.final = s.final || final
	if resp != nil {
		s.items = append(s.items, resp)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the reader has not looked since the last time
	}
}

// count counts a response that is going to wait.
func (s *Stream) count(resp *backend.Response) *backend.Response {
	if n := bytesOf(resp); s.Ledger != nil && n > 0 && !s.Ledger.Take(ledger.Out, n) {
		resp.Release()
		return &backend.Response{Err: s.Ledger.Refusal(ledger.Out, n)}
	}
	return resp
}

// uncount undoes count.
func (s *Stream) uncount(resp *backend.Response) {
	if s.Ledger != nil {
		s.Ledger.Give(ledger.Out, bytesOf(resp))
	}
}

func bytesOf(resp *backend.Response) (n int64) {
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
	resp = s.items[0]
	s.items[0] = nil
	s.items = s.items[1:]
	<-s.room
	s.uncount(resp)
	return resp, false
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
