package scheduler

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// Order makes responses leave in the order in which requests entered. Each
// request has a ticket, which stands between it and the backend: what comes
// out of turn is held. Whoever brings the response that the line waits for
// delivers also what was held behind it.
type Order struct {
	mu         sync.Mutex
	head, tail *Ticket
	delivering bool
}

// Ticket is the turn of a request. It is the request's Responder.
type Ticket struct {
	order   *Order
	request *infer.Request
	next    *Ticket

	held     []response
	answered bool // the final response has been given to the ticket
	gone     bool // nothing more is to be delivered
}

type response struct {
	resp  *backend.Response
	final bool
}

// Add gives the request the last turn.
func (o *Order) Add(r *infer.Request) *Ticket {
	t := &Ticket{order: o, request: r}
	r.Responder, r.Held = t, t
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tail == nil {
		o.head = t
	} else {
		o.tail.next = t
	}
	o.tail = t
	return t
}

// Skip takes out a request that is answered without being executed, which
// happens at once.
func (t *Ticket) Skip() {
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	t.answered, t.gone = true, true
	o.pumpLocked()
}

// Respond implements backend.Responder.
func (t *Ticket) Respond(resp *backend.Response, final bool) error {
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.answered {
		resp.Release()
		return infer.ErrEnded
	}
	t.answered = final
	t.held = append(t.held, response{resp, final})
	o.pumpLocked()
	if !final && t.request.Cancelled() {
		return backend.Errorf(backend.Cancelled, "request cancelled")
	}
	return nil
}

// Cancelled implements backend.Responder.
func (t *Ticket) Cancelled() bool { return t.request.Cancelled() }

// Answered implements infer.Held: it reports whether the final response has been
// given, though perhaps not delivered.
func (t *Ticket) Answered() bool {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	return t.answered
}

// pumpLocked delivers what is due. It lets go of the lock meanwhile; others
// then only add to what is held.
func (o *Order) pumpLocked() {
	if o.delivering {
		return
	}
	o.delivering = true
	for t := o.head; t != nil; t = o.head {
		if t.gone {
			o.head = t.next
			if o.head == nil {
				o.tail = nil
			}
			continue
		}
		if len(t.held) == 0 {
			break
		}
		due := t.held[0]
		t.held = t.held[1:]
		t.gone = due.final
		o.mu.Unlock()
		_ = t.request.Respond(due.resp, due.final) // the model hears of a cancellation by Cancelled
		o.mu.Lock()
	}
	o.delivering = false
}
