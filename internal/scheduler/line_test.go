package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/stats"
)

// held is a scheduler whose requests tell it when they have their place, and end, when
// the test says so.
type held struct {
	mu    sync.Mutex
	order []string
	gates map[string]chan error
}

func (h *held) Enqueue(r *infer.Request) error {
	h.mu.Lock()
	h.order = append(h.order, r.ID)
	gate := h.gates[r.ID]
	h.mu.Unlock()
	if gate == nil {
		r.Taken()
		return nil
	}
	return <-gate
}

func (*held) Change(_, _ []int, _ func(int)) []int { return nil }
func (*held) Close(context.Context) error          { return nil }

// answers notes who has been answered, and with what.
type answers struct {
	mu   sync.Mutex
	code map[string]backend.Code
}

func (a *answers) Deliver(r *infer.Request, resp *backend.Response, _ bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.code[r.ID] = resp.Err.Code
}

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{gates: map[string]chan error{"b": make(chan error), "f": make(chan error)}}
		a := &answers{code: map[string]backend.Code{}}
		l := NewLine(h, stats.NewVersion(nil))
		ctx, cancel := context.WithCancel(t.Context())
		contexts := map[string]context.Context{"d": ctx}
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			r := infer.New(a, nil)
			r.ID, r.Ctx = id, contexts[id]
			l.Add(r)
		}
		synctest.Wait()
		if !slices.Equal(h.order, []string{"a", "b"}) {
			t.Errorf("with b before its place: %v", h.order)
		}
		cancel() // d is answered where it stands
		synctest.Wait()
		if c, ok := a.code["d"]; !ok || c != backend.Cancelled || len(a.code) != 1 {
			t.Errorf("answers after the end of d: %v", a.code)
		}
		h.gates["b"] <- nil // the end of the execution passes the turn too
		synctest.Wait()
		if !slices.Equal(h.order, []string{"a", "b", "c", "e", "f"}) {
			t.Errorf("with f before its place: %v", h.order)
		}
		h.gates["f"] <- errors.New("closing")
		synctest.Wait()
		if !slices.Equal(h.order, []string{"a", "b", "c", "e", "f", "g"}) || len(a.code) != 2 {
			t.Errorf("at the end: %v, answers %v", h.order, a.code)
		}
		if l.moving || l.waiting != nil {
			t.Errorf("the line is not empty: %v", l.waiting)
		}
		r := infer.New(a, nil)
		r.ID = "h"
		l.Add(r)
		synctest.Wait()
		if h.order[len(h.order)-1] != "h" {
			t.Errorf("a request later: %v", h.order)
		}
	})
}
