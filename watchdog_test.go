package neso

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/engine"
)

func newTestWatchdog(t *testing.T) *watchdog {
	t.Helper()
	e, err := engine.New(engine.Options{NoRepository: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	w := newWatchdog(&Server{WatchInterval: 5 * time.Millisecond}, &running{log: slog.New(slog.DiscardHandler)})
	w.engine, w.timeout = e, 50*time.Millisecond
	return w
}

// until waits for what another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// A listener whose owner accepts no more makes the server not ready, with the
// reason, until it does again. What waited to be accepted is not lost.
func TestStuckListenerIsReported(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/s"} {
		w := newTestWatchdog(t)
		l, err := listen(t.Context(), address, false)
		if err != nil {
			t.Fatal(err)
		}
		l = w.watch("HTTPService", l, false)
		w.start()
		until(t, "not reported", func() bool { return w.Stuck()["HTTPService"] })
		if err := w.engine.Ready(); err == nil || !strings.Contains(err.Error(), "HTTPService: connections are not accepted") {
			t.Errorf("got %v", err)
		}
		h := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- h.Serve(l) }()
		until(t, "no recovery", func() bool { return !w.Stuck()["HTTPService"] && w.engine.Ready() == nil })
		w.end()
		w.end() // twice is once
		_ = h.Close()
		<-served
	}
}

// Ports that are shared are not probed, nor is anything without an interval.
func TestNotWatched(t *testing.T) {
	l := make(pipes)
	w := newTestWatchdog(t)
	if w.watch("HTTPService", l, true) != net.Listener(l) {
		t.Error("a shared port is watched")
	}
	w.interval = -1
	if w.watch("HTTPService", l, false) != net.Listener(l) {
		t.Error("watched without an interval")
	}
	w.start()
	w.end()
}
