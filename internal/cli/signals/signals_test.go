package signals

import (
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a log whose lines take their time, as those to a pipe that is full or
// a machine that stands still.
type slow struct{ io.Writer }

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(10 * sameStop)
	return s.Writer.Write(b)
}

func TestSignalsThatComeTogetherAreOneStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		signals <- os.Interrupt
		stops, exits := 0, 0
		go stopAt(signals, slog.New(slog.NewTextHandler(slow{io.Discard}, nil)), func() { stops++ }, func(int) { exits++ })
		synctest.Wait()
		if stops != 1 {
			t.Errorf("%d stops before the first line is written, expected 1", stops)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if stops != 1 || exits != 0 {
			t.Errorf("two signals at once: %d stops, %d exits, expected 1 and 0", stops, exits)
		}
		signals <- syscall.SIGTERM
		time.Sleep(time.Minute)
		synctest.Wait()
		if stops != 1 || exits != 1 {
			t.Errorf("a signal a minute later: %d stops, %d exits, expected 1 and 1", stops, exits)
		}
		close(signals)
	})
}
