package stream

import (
	"sync"

	"github.com/nesoserve/neso/backend"
)

// Window bounds the responses of one decoupled request that a worker sends before the
// client has taken them, where the worker keeps count. A response counts 1, and 1 more
// for every CreditBytes. The server gives the count back with CREDIT. So a client that
// does not read makes only its own request wait, in the worker.
const (
	Window = 256
	// CreditBytes is how many bytes of a response count 1.
	CreditBytes = 4 << 10
	// creditStep is how much the client takes before the worker is told.
	creditStep = Window / 4
)

const (
	// Room is how many responses of a request may wait in the queue when the worker
	// keeps no count. As many may wait behind the one that the client is taking. When
	// the queue is full the reader waits, and so does the worker with all its
	// requests: what the worker has not sent costs the server nothing.
	Room = 32
	// windowRoom is the same for a worker that keeps count. It may exceed the window
	// up to four times, where it cannot wait.
	windowRoom = 4*Window + Room
)

// Stream delivers the responses of one request of a decoupled model. Delivering may wait
// for the client, which the reader must not do for one of many requests.
type Stream struct {
	req    *backend.Request
	room   int
	credit func(taken int) // tells the worker; nil when it keeps no count
	wake   chan struct{}   // there is something to deliver
	taken  chan struct{}   // there is room

	mu    sync.Mutex
	items []Item
	ended bool // the last one is in items, or has been delivered
}

// Item is one response, or only the news that the request ends (Final) or is to run
// again. Cost is what it counts in the window.
type Item struct {
	Resp         *backend.Response
	Cost         int
	Final, Again bool
}

func (i *Item) ends() bool { return i.Final || i.Again }

// New returns the stream of a request. credit tells the worker what has been taken;
// nil when it keeps no count.
func New(req *backend.Request, credit func(taken int)) *Stream {
	s := &Stream{req: req, room: Room, credit: credit, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	if credit != nil {
		s.room = windowRoom
	}
	return s
}

// Push queues a response. It waits while the queue is full, until the
// connection is closing. The last one never waits.
func (s *Stream) Push(item Item, closing <-chan struct{}) {
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
			item.Resp.Release()
			return
		}
	}
}

// Deliver runs until the final response is given, or the request is to run
// again: what the model sends then is delivered after all that came before.
func (s *Stream) Deliver() {
	var batch []Item
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
			batch[i] = Item{}
			s.give(item)
			if item.ends() {
				return
			}
			taken = s.settle(taken + item.Cost)
		}
	}
}

// settle tells the worker how much has been taken, once that is worth a frame. A stream
// that has ended needs no credit.
func (s *Stream) settle(taken int) int {
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

func (s *Stream) give(item Item) {
	if item.Again {
		Reschedule(s.req)
		return
	}
	_ = s.req.Respond(item.Resp, item.Final) // a cancelled request needs nothing more
}

// Reschedule gives a request back that the model wants to see again.
func Reschedule(req *backend.Request) {
	if err := req.Reschedule(); err != nil {
		_ = req.Respond(&backend.Response{Err: backend.AsError(err)}, true) // a request that has ended needs nothing more
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a notice already
	}
}
