package worker

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestALoadThatGoesOnIsReported: after half a minute, a minute, two, four.
func TestALoadThatGoesOnIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := &loadWatch{conn: &Conn{opts: ConnOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, stop: make(chan struct{})}
		ended := make(chan struct{})
		go func() { defer close(ended); w.run() }()
		time.Sleep(5 * time.Minute)
		close(w.stop)
		<-ended
		got := strings.Join(regexp.MustCompile(`since=\S+`).FindAllString(log.String(), -1), " ")
		if want := "since=30s since=1m0s since=2m0s since=4m0s"; got != want {
			t.Errorf("got %s, want %s:\n%s", got, want, log.String())
		}
	})
}
