package dynamic

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// order makes responses leave in the order in which requests entered. Each
// request has a ticket, which stands between it and the backend: what comes
// out of turn is held. Whoever brings the response that the line waits for
// delivers also what was held behind it.
type order struct {
	mu         sync.Mutex
	head, tail *ticket
	delivering bool
}

// ticket is a request's place in the order. It is the request's Responder.
type ticket struct {
	order   *order
	request *infer.Request
	next    *ticket

	held     []response
	answered bool // the final response has been given to the ticket
	gone     bool // nothing more is to be delivered
}

type response struct {
	resp  *backend.Response
	final bool
}

// add gives the request the last place.
func (o *order) add(r *infer.Request) *ticket {
	t := &ticket{order: o, request: r}
	r.Responder = t
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

// skip takes out a request that is answered without being executed, which
// happens at once.
func (t *ticket) skip() {
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	t.answered, t.gone = true, true
	o.pumpLocked()
}

// Respond implements backend.Responder.
func (t *ticket) Respond(resp *backend.Response, final bool) error {
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
func (t *ticket) Cancelled() bool { return t.request.Cancelled() }

// Answered reports whether the final response has been given, though perhaps
// not delivered.
func (t *ticket) Answered() bool {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	return t.answered
}

// pumpLocked delivers what is due. It lets go of the lock meanwhile; others
// then only add to what is held.
func (o *order) pumpLocked() {
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
