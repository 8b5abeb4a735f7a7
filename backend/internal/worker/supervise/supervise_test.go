package supervise

import (
	"testing"
	"time"
)

func TestRestarts(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	type step struct {
		at      time.Duration
		success bool
		delay   time.Duration
		loop    bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"single deaths restart at once", []step{{0, true, 0, false}, {10 * s, true, 0, false}, {20 * s, true, 0, false}}},
		{"backoff doubles", []step{
			{0, false, 0, false},
			{1 * s, false, 100 * ms, false},
			{2 * s, false, 200 * ms, false},
			{3 * s, false, 400 * ms, false},
			{4 * s, false, 800 * ms, true},
		}},
		{"slow deaths are no loop", []step{
			{0, false, 0, false},
			{20 * s, false, 100 * ms, false},
			{40 * s, false, 200 * ms, false},
			{60 * s, false, 400 * ms, false},
			{80 * s, false, 800 * ms, false},
		}},
		{"success ends a loop", []step{
			{0, false, 0, false},
			{1, false, 100 * ms, false},
			{2, false, 200 * ms, false},
			{3, false, 400 * ms, false},
			{4, false, 800 * ms, true},
			{5, true, 0, false},
		}},
	} {
		var r restarts
		for i, st := range c.steps {
			delay := r.died(st.at, st.success)
			if delay != st.delay || r.looping(st.at, false, false) != st.loop {
				t.Errorf("%s: step %d: delay %v, loop %v", c.name, i, delay, r.looping(st.at, false, false))
			}
		}
	}
	var r restarts
	for i := range 40 {
		if d := r.died(time.Duration(i)*s, false); d > maxBackoff {
			t.Fatalf("delay %v", d)
		}
	}
	r.started(100 * s)
	if !r.looping(101*s, true, false) || r.looping(111*s, true, false) || !r.looping(111*s, false, false) || r.looping(101*s, true, true) {
		t.Error("probation")
	}
}
