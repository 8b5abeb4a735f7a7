package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

// TestLoopsEndACircle: of two calls that wait for each other one is ended, once
// nothing has moved for a while, and the other goes on.
func TestLoopsEndACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loops
		first, second := &recorder{done: make(chan struct{})}, &recorder{done: make(chan struct{})}
		begin := time.Now()
		a := l.enter(backend.Caller{Model: "a", Version: 1, Of: 1, Instance: "a_0"}, []node{{"b", 1}}, true, nil, first)
		time.Sleep(10 * loopTick)
		select {
		case <-first.done:
			t.Fatal("ended although its callee works")
		default:
		}
		b := l.enter(backend.Caller{Model: "b", Version: 1, Of: 1, Instance: "b_0"}, []node{{"a", 1}}, true, nil, second)
		var ended *recorder
		var other *waitingCall
		select {
		case <-first.done:
			ended, other = first, b
		case <-second.done:
			ended, other = second, a
		}
		if took := time.Since(begin) - 10*loopTick; took > 3*loopTick {
			t.Errorf("ended after %v", took)
		}
		if err := ended.responses[0].Err; err == nil || !strings.Contains(err.Message, "in a circle") {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * loopTick)
		if err := other.Respond(&backend.Response{}, true); err != nil {
			t.Errorf("the other call: %v", err)
		}
		for _, w := range []*waitingCall{a, b} {
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
