package worker

import (
	"sync"

	"github.com/nesoserve/neso/backend"
)

// Window is how much of the responses of one decoupled request a worker may
// send before the client has taken them, where it keeps count: a response
// counts 1, and 1 more for every creditBytes. The server returns the count with
// CREDIT. So a client that does not read makes its own request wait, in the
// worker, and no other.
const (
	Window      = 256
	creditBytes = 4 << 10
	// creditStep is how much is taken before the worker is told.
	creditStep = Window / 4
)

const (
	// streamRoom is how many responses of a request may wait in the queue, and
	// as many behind the one that waits for the client, when the worker keeps no
	// count. Then the reader waits, hence the worker with all
	// its requests: what it has not sent yet costs the server nothing.
	streamRoom = 32
	// windowRoom is the same for a worker that should keep count: it may exceed
	// the window where it cannot wait, up to four times.
	windowRoom = 4*Window + streamRoom
)

// stream delivers the responses of one request of a decoupled model. Respond
// may wait for the client there, which the reader must not do on behalf of one
// among many requests.
type stream struct {
	req    *backend.Request
	room   int
	credit func(taken int) // tells the worker; nil when it keeps no count
	wake   chan struct{}   // there is something to deliver
	taken  chan struct{}   // there is room

	mu    sync.Mutex
	items []streamItem
	ended bool // the last one is in items, or has been delivered
}

type streamItem struct {
	resp         *backend.Response
	cost         int
	final, again bool
}

func (i *streamItem) ends() bool { return i.final || i.again }

func newStream(req *backend.Request, credit func(taken int)) *stream {
	s := &stream{req: req, room: streamRoom, credit: credit, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	if credit != nil {
		s.room = windowRoom
	}
	return s
}

// push queues a response. It waits while the queue is full, until the
// connection is closing; only the last one always has a place.
func (s *stream) push(item streamItem, closing <-chan struct{}) {
	for {
		s.mu.Lock()
		if len(s.items) < s.room || item.ends() {
			s.items = append(s.items, item)
			s.ended = s.ended || item.ends()
			s.mu.Unlock()
			notify(s.wake)
			return
		}
		s.mu.Unlock()
		select {
		case <-s.taken:
		case <-closing:
			item.resp.Release()
			return
		}
	}
}

// deliver runs until the final response is given, or the request is to run
// again: what the model sends then is delivered after all that came before.
func (s *stream) deliver() {
	var batch []streamItem
	taken := 0
	for {
		s.mu.Lock()
		batch, s.items = s.items, batch[:0]
		s.mu.Unlock()
		if len(batch) == 0 {
			<-s.wake
			continue
		}
		notify(s.taken)
		for i := range batch {
			item := batch[i]
			batch[i] = streamItem{}
			s.give(item)
			if item.ends() {
				return
			}
			taken = s.settle(taken + item.cost)
		}
	}
}

// settle tells the worker what has been taken, once that is worth a frame. A
// stream whose end has come needs none.
func (s *stream) settle(taken int) int {
	if s.credit == nil || taken < creditStep {
		return taken
	}
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if !ended {
		s.credit(taken)
	}
	return 0
}

func (s *stream) give(item streamItem) {
	if item.again {
		reschedule(s.req)
		return
	}
	_ = s.req.Respond(item.resp, item.final) // a cancelled request needs nothing more
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a notice already
	}
}

// creditor returns the function that returns credit to the worker for a handle.
func (c *Conn) creditor(inst *Instance, handle uint64) func(taken int) {
	if !inst.Window {
		return nil
	}
	return func(taken int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.out = appendCredit(c.out, inst.Number, handle, taken)
			c.flushLocked()
		}
	}
}
