package transport

import (
	"strings"
	"testing"
)

// connOf returns the server's side of the only connection.
func connOf(s *Server) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		return c
	}
	return nil
}

// A call that waits does not keep others of its connection waiting, and can be
// cancelled, also where it came alone.
func TestStandIn(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	for range 3 {
		slow := r.call("/test.Echo/Unary", "wait")
		for range 2 {
			if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "data hello grpc-status=0") {
				t.Fatalf("got %s", got)
			}
		}
		r.write(appendReset(nil, slow, codeCancel))
	}
}

// Where the answer waits for room, the client's frame that makes it is read at
// once.
func TestStandInForWindow(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 10)...))
	for range 5 {
		id := r.call("/test.Echo/Unary", strings.Repeat("x", 100))
		r.write(appendWindowUpdate(nil, id, 95))
		if got := r.answer(id); strings.Count(got, "x") < 90 || !strings.HasSuffix(got, "grpc-status=0") {
			t.Fatalf("got %s", got)
		}
	}
}

// Calls that come one after the other run on the reader.
func TestOnReader(t *testing.T) {
	s, addr := serve(t, Options{})
	r := connect(t, addr, true)
	c := connOf(s)
	for range 50 {
		if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "grpc-status=0") {
			t.Fatalf("got %s", got)
		}
	}
	s.Stop()
	if c.sock != nil && c.turn == 0 {
		t.Error("none of the calls ran on the reader")
	}
}
