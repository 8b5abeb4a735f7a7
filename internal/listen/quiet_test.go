package listen

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// pipes is a listener that gives out one end of each pipe put into it.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A connection on which nothing is said does not keep the server from ending.
func TestShutdownWithSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quiet
		h, l, served := &http.Server{Handler: http.NotFoundHandler()}, make(pipes), make(chan error, 1)
		q.Watch(h)
		go func() { served <- h.Serve(l) }()
		spoken, theirs := net.Pipe()
		l <- theirs
		silent, theirs := net.Pipe()
		l <- theirs
		_, _ = spoken.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
		answer := make([]byte, 12)
		if _, err := spoken.Read(answer); err != nil || string(answer) != "HTTP/1.1 404" {
			t.Errorf("got %q, %v", answer, err)
		}
		go func() {
			for b := make([]byte, 512); ; {
				if _, err := spoken.Read(b); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		begin := time.Now() // of the bubble: what passes is what Shutdown waits for
		q.Close()
		if err := h.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited > time.Second {
			t.Errorf("Shutdown waited %v", waited)
		}
		if _, err := silent.Read(answer); err == nil {
			t.Error("the silent connection is open")
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
