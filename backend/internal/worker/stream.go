package worker

import "github.com/nesoserve/neso/backend"

// streamRoom is how many responses of one decoupled request may wait for the
// client. Then the reader waits, hence the worker: what it has not sent yet
// costs the server nothing.
const streamRoom = 64

// stream delivers the responses of one request of a decoupled model. Respond
// may wait for the client there, which the reader must not do on behalf of one
// among many requests.
type stream struct {
	req   *backend.Request
	items chan streamItem
	last  streamItem // in place of what did not fit when the worker died
}

type streamItem struct {
	resp         *backend.Response
	final, again bool
}

func (i *streamItem) ends() bool { return i.final || i.again }

func newStream(req *backend.Request) *stream {
	return &stream{req: req, items: make(chan streamItem, streamRoom)}
}

// push queues a response. It waits while the queue is full, until the
// connection is closing; then a final response takes the place of what is left
// out.
func (s *stream) push(item streamItem, closing <-chan struct{}) {
	select {
	case s.items <- item:
	default:
		select {
		case s.items <- item:
		case <-closing:
			if !item.ends() {
				item.resp.Release()
				return
			}
			s.last = item
		}
	}
	if item.ends() {
		close(s.items)
	}
}

// deliver runs until the final response is given, or the request is to run
// again: what the model sends then is delivered after all that came before.
func (s *stream) deliver() {
	for item := range s.items {
		s.give(item)
		if item.ends() {
			return
		}
	}
	s.give(s.last)
}

func (s *stream) give(item streamItem) {
	if item.again {
		reschedule(s.req)
		return
	}
	_ = s.req.Respond(item.resp, item.final) // a cancelled request needs nothing more
}
