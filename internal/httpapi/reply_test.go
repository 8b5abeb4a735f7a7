package httpapi

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/engine"
)

// oneConn is a listener of one connection.
type oneConn struct {
	c    chan net.Conn
	over chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.c:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error {
	close(l.over)
	return nil
}

func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A client that does not take even a small reply keeps its connection for as long
// as the options say.
func TestUnreadReplyEndsInTime(t *testing.T) {
	e, err := engine.New(engine.Options{NoRepository: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/nowhere", "/v2/models/a/infer", "/v1/models/a", "/v1/nothing"} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{Engine: e, ReadTimeout: 5 * time.Second, OpenAI: true})
			if err != nil {
				t.Fatal(err)
			}
			server, l := s.HTTPServer(), oneConn{make(chan net.Conn, 1), make(chan struct{})}
			served := make(chan error, 1)
			go func() { served <- server.Serve(l) }()
			client, theirs := net.Pipe()
			l.c <- theirs
			if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			time.Sleep(4 * time.Second)
			synctest.Wait()
			var one [1]byte
			if _, err := client.Read(one[:]); err != nil {
				t.Errorf("%s: cut off after %v", path, time.Since(begin))
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			_ = client.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := io.ReadAll(client); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: after %v the reply still waits: %v", path, time.Since(begin), err)
			}
			_ = client.Close()
			_ = server.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}
