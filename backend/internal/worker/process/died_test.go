package process

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

// TestCauseOfALateStatus: a busy machine may be late with the news of a
// process's end. What it died of is the cause, and not that it was killed when
// nothing had been heard; one that does go on is killed, and that is said.
func TestCauseOfALateStatus(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // of the news; 0 for a process that goes on until it is killed
		died  exitStatus
		want  string
	}{
		{"at once", time.Millisecond, exitStatus{known: true, code: 8}, "the process exited with code 8"},
		{"late", 3 * time.Second, exitStatus{known: true, code: 8}, "the process exited with code 8"},
		{"killed by another", 3 * time.Second, exitStatus{known: true, signal: "SIGKILL"}, "the process was killed by SIGKILL"},
		{"never", time.Hour, exitStatus{known: true, signal: "SIGKILL"}, "the process ended"},
		{"goes on", 0, exitStatus{}, "the process closed its channel and went on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Process{exited: make(chan struct{}), read: make(chan struct{}), lines: &linelog.Log{}}
				close(p.read)
				p.over = func() bool { return c.after > 0 }
				if c.after > 0 {
					defer time.AfterFunc(c.after, func() { p.end(c.died) }).Stop()
				}
				p.signal = func(processSignal) {
					select {
					case <-p.exited:
					default:
						if c.after == 0 {
							p.end(exitStatus{known: true, signal: "SIGKILL"})
						}
					}
				}
				if got := p.Cause("", io.EOF); !strings.HasPrefix(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}
