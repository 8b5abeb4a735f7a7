//go:build !nopurego && (linux || darwin || windows)

package genai

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend/internal/library"
)

// script is a library that has an engine and nothing else: each run gives the events that are next.
type script struct {
	runs   atomic.Int64
	events []uint64 // one for each run: its flags, 0 for none
	now    uint64
}

func (s *script) network(t *testing.T) *network {
	t.Helper()
	a := &api{hasEngine: true}
	well := library.Function(library.Callback(func() uintptr { return 0 }))
	for i := range a.functions {
		a.functions[i] = well
	}
	put := func(out uintptr, v uint64) uintptr {
		*(*uint64)(library.Pointer(out)) = v
		return 0
	}
	last := 0
	for fn, f := range map[int]any{
		fnCreateEngine:        func(_, out uintptr) uintptr { return put(out, 1) },
		fnCreateEventBuffer:   func(_, _, out uintptr) uintptr { return put(out, 2) },
		fnEngineCreateRequest: func(_, _, out uintptr) uintptr { return put(out, 3) },
		fnCreateTurnOptions:   func(_, out uintptr) uintptr { return put(out, 4) },
		fnEngineRun: func(_, _ uintptr) uintptr {
			s.runs.Add(1)
			s.now = 0
			if last < len(s.events) {
				s.now = s.events[last]
				last++
			}
			return 0
		},
		fnEventCount:   func(uintptr) uintptr { return uintptr(min(1, s.now)) },
		fnEventGet:     func(_, _ uintptr) uintptr { return 5 },
		fnEventFlags:   func(_, out uintptr) uintptr { return put(out, s.now) },
		fnEventRequest: func(_, out uintptr) uintptr { return put(out, 3) },
		fnEventFinish:  func(_, out uintptr) uintptr { return put(out, finishEnd) },
	} {
		a.functions[fn] = library.Function(library.Callback(f))
	}
	return &network{api: a, settings: &settings{}}
}

func (s *script) begin(t *testing.T) (*engine, source) {
	t.Helper()
	e, err := newEngine(s.network(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	from, err := e.begin(&task{prompt: []int32{1}}, never)
	if err != nil {
		t.Fatal(err)
	}
	return e, from
}

// TestEngineRestsWhenATextHasEnded: its client may take long to read it, and the engine has nothing to do meanwhile.
func TestEngineRestsWhenATextHasEnded(t *testing.T) {
	s := &script{events: []uint64{flagToken, flagFinished}}
	e, from := s.begin(t)
	for range 2 {
		if _, err := from.next(0); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 { // the thread goes round
		if err := e.do(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.runs.Load(); n != 2 {
		t.Errorf("%d runs for a text of two", n)
	}
	from.close()
	if n := len(e.active) + len(e.over); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

// TestEngineRestsWhenItHasNothing: a library that gives no events for what it has been given is not asked without a
// pause, and a request that comes meanwhile does not wait for the end of that.
func TestEngineRestsWhenItHasNothing(t *testing.T) {
	e := &engine{}
	rests := []time.Duration{}
	for range 12 {
		rests = append(rests, e.rest(0, false))
	}
	if rests[0] != 0 || rests[1] <= 0 || rests[11] != longRest || !slices.IsSorted(rests) {
		t.Errorf("without events: %v", rests)
	}
	if d := e.rest(1, false); d != 0 {
		t.Errorf("after a token: %v", d)
	}
	if d := e.rest(1, true); d != longRest {
		t.Errorf("while it waits for room: %v", d)
	}
	if d := e.rest(0, false); d != 0 {
		t.Errorf("the first without events again: %v", d)
	}
}
