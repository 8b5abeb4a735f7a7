package perf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/perf/measure"
)

// watch decides when there is no hope that a server answers. Times are nanoseconds of
// drive.Now.
type watch struct {
	answered, failed int64 // counts as of the last look
	ever             bool  // something has been answered
	heardAt          int64 // when an answer or a failure last came
	failures         int64 // since the last answer
	failing          int64 // when the first of them was seen
}

// Many failures in a row, which go on for patience, end a measurement; before the
// first answer they do so at once. Silence is how long nothing at all may come.
const (
	many     = 10
	patience = time.Second
	silence  = 10 * time.Minute
)

func newWatch(now int64) *watch { return &watch{heardAt: now} }

var (
	errNoAnswer = errors.New("no request is answered any more")
	errSilence  = fmt.Errorf("no request was answered and none failed for %v", silence)
)

// anew says that counts begin at 0 again.
func (w *watch) anew() { w.answered, w.failed = 0, 0 }

// look is told how many requests have been answered and have failed until now.
func (w *watch) look(now, answered, failed int64) error {
	more, lost := answered-w.answered, failed-w.failed
	w.answered, w.failed = answered, failed
	if more > 0 || lost > 0 {
		w.heardAt = now
	}
	switch {
	case more > 0:
		w.ever, w.failures = true, 0
	case lost > 0:
		if w.failures == 0 {
			w.failing = now
		}
		w.failures += lost
	}
	switch {
	case w.failures >= many && (!w.ever || now-w.failing > int64(patience)):
		return errNoAnswer
	case now-w.heardAt > int64(silence):
		return errSilence
	}
	return nil
}

// because adds to errNoAnswer what the failures of a window have most in common.
func because(cut error, w *measure.Window) error {
	if !errors.Is(cut, errNoAnswer) || len(w.Errors) == 0 {
		return cut
	}
	e := w.Errors[0]
	return fmt.Errorf("%w: %s (%d times)", cut, strings.TrimSuffix(e.Kind+": "+e.Text, ": "), e.Count)
}
