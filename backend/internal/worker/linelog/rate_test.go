package linelog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogRate: what a worker writes goes into the log up to its rate, and the log
// says how much did not.
func TestLogRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		l := &Log{logger: logger, rate: &Rate{logger: logger}}
		written := func() (lines int, dropped []int) {
			for text := range strings.Lines(out.String()) {
				var n int
				if _, rest, found := strings.Cut(text, " dropped="); found {
					if _, err := fmt.Sscan(rest, &n); err != nil {
						t.Fatal(err)
					}
					dropped = append(dropped, n)
				} else {
					lines++
				}
			}
			out.Reset()
			return lines, dropped
		}
		flood := func(n, size int) {
			for range n {
				l.write([]byte(strings.Repeat("x", size) + "\n"))
			}
		}
		for _, c := range []struct {
			name        string
			n, size     int
			wait        time.Duration
			lines, lost int
		}{
			{"what is usual", 10_000, 10, 20 * time.Second, 10_000, 0},
			{"many lines", 25_000, 10, 20 * time.Second, 10_000, 15_000},
			{"large lines", 1000, 16 << 10, 20 * time.Second, 256, 744},
			{"again", 10_000, 10, 0, 10_000, 0},
		} {
			flood(c.n, c.size)
			time.Sleep(c.wait)
			synctest.Wait()
			lines, dropped := written()
			lost := 0
			for _, n := range dropped {
				lost += n
			}
			if lines != c.lines || lost != c.lost {
				t.Errorf("%s: %d lines and %d dropped, want %d and %d", c.name, lines, lost, c.lines, c.lost)
			}
		}
		flood(100_000, 10) // a flood that ends with the worker
		l.rate.End()
		if lines, dropped := written(); lines != 0 || len(dropped) != 1 || dropped[0] != 100_000 {
			t.Errorf("at the end: %d lines, dropped %v", lines, dropped)
		}
		if !strings.HasSuffix(l.last(), strings.Repeat("x", 10)) {
			t.Errorf("the last lines, for the news of its end: %q", l.last())
		}
	})
}
