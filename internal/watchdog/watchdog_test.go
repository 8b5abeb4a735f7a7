package watchdog

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/listen"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// testWatchdog tells an engine what it finds.
type testWatchdog struct {
	*Watchdog
	engine *engine.Engine
}

func newTestWatchdog(t *testing.T) testWatchdog {
	t.Helper()
	e, err := engine.New(engine.Options{NoRepository: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	w := New(slog.New(slog.DiscardHandler), 5*time.Millisecond)
	w.timeout = 50 * time.Millisecond
	return testWatchdog{w, e}
}

// until waits for what another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
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
		l, err := listen.Open(t.Context(), address, false)
		if err != nil {
			t.Fatal(err)
		}
		l = w.Watch("HTTPService", l, false)
		w.Start(w.engine.SetFault)
		// Where connecting itself takes longer than the timeout, that is the reason.
		until(t, "not reported, or not why", func() bool {
			stuck, err := w.Stuck()["HTTPService"], w.engine.Ready()
			return stuck && err != nil && strings.Contains(err.Error(), "HTTPService: connections are not accepted")
		})
		h := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- h.Serve(l) }()
		until(t, "no recovery", func() bool { return !w.Stuck()["HTTPService"] && w.engine.Ready() == nil })
		w.End()
		w.End() // twice is once
		_ = h.Close()
		<-served
	}
}

// Of listeners that share a port the one that accepts nothing is found by the
// connections that wait in it, and the other one is not blamed.
func TestStuckSharedListenerIsReported(t *testing.T) {
	w := newTestWatchdog(t)
	var listeners [2]net.Listener
	address := "127.0.0.1:0"
	for i, name := range []string{"stuck", "good"} {
		l, err := listen.Open(t.Context(), address, true)
		if err != nil {
			t.Skip("this platform shares no ports: ", err)
		}
		if _, ok := listen.Waiting(l); !ok {
			t.Skip("this platform does not say what waits in a listener")
		}
		address = l.Addr().String()
		listeners[i] = w.Watch(name, l, true)
	}
	h := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 2)
	go func() { served <- h.Serve(listeners[1]) }()
	w.Start(w.engine.SetFault)
	if w.engine.Ready() != nil {
		t.Error("blamed while nobody connects")
	}
	// The kernel spreads connections over both.
	for n, i := 0, 0; n == 0; i++ {
		if i == 1000 {
			t.Fatal("no connection of 1000 came to the first listener")
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, _ = listen.Waiting(listeners[0].(*accepting).Listener)
	}
	// A machine that stands still for longer than the timeout has the good one
	// blamed as well, until it is looked at again.
	until(t, "not reported, or the listener that accepts is blamed", func() bool {
		now := w.Stuck()
		return now["stuck"] && !now["good"]
	})
	go func() { served <- h.Serve(listeners[0]) }()
	until(t, "no recovery", func() bool { return !w.Stuck()["stuck"] && w.engine.Ready() == nil })
	w.End()
	_ = h.Close()
	<-served
	<-served
}

// Nothing is watched without an interval, nor what does not say what waits.
func TestNotWatched(t *testing.T) {
	l := new(net.UnixListener)
	w := newTestWatchdog(t)
	if w.Watch("HTTPService", l, true) != net.Listener(l) {
		t.Error("a shared port that says nothing is watched")
	}
	w.interval = -1
	if w.Watch("HTTPService", l, false) != net.Listener(l) {
		t.Error("watched without an interval")
	}
	w.Start(w.engine.SetFault)
	w.End()
}
