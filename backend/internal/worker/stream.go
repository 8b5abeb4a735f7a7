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
	last  *backend.Response // in place of what did not fit when the worker died
}

type streamItem struct {
	resp  *backend.Response
	final bool
}

func newStream(req *backend.Request) *stream {
	return &stream{req: req, items: make(chan streamItem, streamRoom)}
}

// push queues a response. It waits while the queue is full, until the
// connection is closing; then a final response takes the place of what is left
// out.
func (s *stream) push(resp *backend.Response, final bool, closing <-chan struct{}) {
	item := streamItem{resp, final}
	select {
	case s.items <- item:
	default:
		select {
		case s.items <- item:
		case <-closing:
			if !final {
				resp.Release()
				return
			}
			s.last = resp
		}
	}
	if final {
		close(s.items)
	}
}

// deliver runs until the final response is given.
func (s *stream) deliver() {
	for item := range s.items {
		_ = s.req.Respond(item.resp, item.final) // a cancelled request needs nothing more
		if item.final {
			return
		}
	}
	_ = s.req.Respond(s.last, true)
}
