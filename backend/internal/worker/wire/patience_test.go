package wire

import (
	"strings"
	"testing"
	"time"
)

// TestPatience: only a wait without a byte counts, also where the reader is called
// away from it, and none after the frame.
func TestPatience(t *testing.T) {
	var late []error
	p := &Patience{limit: time.Hour, grace: time.Hour, late: func(err error) { late = append(late, err) }}
	passes := func(d time.Duration) { // without a byte
		p.since = p.since.Add(-d)
		p.passed()
	}
	p.begin(10, 100)
	passes(59 * time.Minute)
	p.end(true)
	p.begin(20, 100)
	passes(59 * time.Minute)
	p.end(false) // for a task
	p.begin(20, 100)
	if p.grudging {
		t.Fatal("the grace began before the time was over")
	}
	passes(2 * time.Minute)
	if !p.grudging || late != nil {
		t.Fatalf("grace %v, %v before it is over", p.grudging, late)
	}
	p.passed()
	if len(late) != 1 || !strings.Contains(late[0].Error(), "20 of 100 bytes") {
		t.Fatalf("got %v", late)
	}
	p.end(true)
	p.passed()
	if len(late) != 1 {
		t.Fatalf("late although nobody waits: %v", late[1:])
	}
}
