package deadlock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

// recorder keeps what a caller is answered.
type recorder struct {
	responses []*backend.Response
	done      chan struct{}
}

func (r *recorder) Respond(resp *backend.Response, final bool) error {
	r.responses = append(r.responses, resp)
	if final {
		close(r.done)
	}
	return nil
}

func (r *recorder) Cancelled() bool { return false }

// TestCirclesEnd: of two calls that wait for each other one is ended, once
// nothing has moved for a while, and the other goes on.
func TestCirclesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Detector
		first, second := &recorder{done: make(chan struct{})}, &recorder{done: make(chan struct{})}
		begin := time.Now()
		a := l.Enter(backend.Caller{Model: "a", Version: 1, Of: 1, Instance: "a_0"}, []Node{{"b", 1}}, true, nil, nil, first)
		time.Sleep(10 * tick)
		select {
		case <-first.done:
			t.Fatal("ended although its callee works")
		default:
		}
		b := l.Enter(backend.Caller{Model: "b", Version: 1, Of: 1, Instance: "b_0"}, []Node{{"a", 1}}, true, nil, nil, second)
		var ended *recorder
		var other *Call
		select {
		case <-first.done:
			ended, other = first, b
		case <-second.done:
			ended, other = second, a
		}
		if took := time.Since(begin) - 10*tick; took > 3*tick {
			t.Errorf("ended after %v", took)
		}
		if err := ended.responses[0].Err; err == nil || !strings.Contains(err.Message, "in a circle") {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * tick)
		if err := other.Respond(&backend.Response{}, true); err != nil {
			t.Errorf("the other call: %v", err)
		}
		for _, w := range []*Call{a, b} {
			if w != other {
				if err := w.Respond(&backend.Response{}, true); err == nil {
					t.Error("a response after the end")
				}
			}
		}
		if len(l.active) != 0 {
			t.Errorf("%d calls are left", len(l.active))
		}
	})
}
