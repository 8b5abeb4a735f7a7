package refusals

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A flood writes few lines, another reason has lines of its own, and the line after
// the flood says how many had none.
func TestFloodsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		b := New(slog.New(slog.NewTextHandler(&log, nil)))
		for range 1000 {
			b.Refused(NoKey, "it has none", slog.String("client", "192.0.2.1:1"))
		}
		b.Refused(Origin, strings.Repeat("é", 10_000))
		if n := strings.Count(log.String(), "reason=key_missing"); n != atOnce {
			t.Errorf("%d lines of a flood, want %d", n, atOnce)
		}
		if n := len(log.String()); n > 4000 || strings.Count(log.String(), "reason=origin") != 1 {
			t.Errorf("%d bytes: %.200q", n, log.String())
		}
		time.Sleep(time.Second)
		log.Reset()
		b.Refused(NoKey, "it has none", slog.String("client", "192.0.2.1:1"))
		b.Refused(NoKey, "it has none", slog.String("client", "192.0.2.1:1"))
		line := log.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line,
			`level=WARN msg="request refused" reason=key_missing why="it has none" client=192.0.2.1:1 not_logged_before=990`) {
			t.Error(line)
		}
		counts := b.Counts()
		if counts["key_missing"] != 1002 || counts["origin"] != 1 || counts["path"] != 0 || len(counts) != int(reasonCount) {
			t.Errorf("%v", counts)
		}
	})
	var none *Book
	none.Refused(Origin, "")
}
