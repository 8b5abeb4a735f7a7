//go:build unix

package worker

import (
	"testing"
	"time"
)

// TestReaderStaysAfterCalls: a process that calls the server by itself is read
// also when no batch waits for an answer; one that does not is left alone, so
// that the next Execute reads for itself.
func TestReaderStaysAfterCalls(t *testing.T) {
	for _, calls := range []bool{false, true} {
		f := newFake(t, nil)
		inst := f.instance(nil)
		f.conn.mu.Lock()
		f.conn.r.idle.Stop() // no idle tick decides here
		f.conn.r.idleArmed = true
		if calls {
			f.conn.r.callUntil = time.Now().Add(time.Hour)
		}
		f.conn.mu.Unlock()
		for range 3 {
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, _ := f.next(KindExecute)
			f.sendBody(KindDone, h.ID, nil)
			_ = result(t, done) // nobody answered the request, which is not the point
		}
		f.conn.mu.Lock()
		for !calls && f.conn.r.reading { // the background goroutine may be about to lay the part down
			f.conn.mu.Unlock()
			done := f.execute(t.Context(), inst, request(newAnswers()))
			h, _ := f.next(KindExecute)
			f.sendBody(KindDone, h.ID, nil)
			_ = result(t, done)
			f.conn.mu.Lock()
		}
		if got := f.conn.r.reading; got != calls {
			t.Errorf("calls=%v: the channel is read: %v", calls, got)
		}
		f.conn.mu.Unlock()
	}
}
