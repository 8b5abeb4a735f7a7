package transport

import (
	"math"
	"net"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
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
	for range 50 {
		if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "grpc-status=0") {
			t.Fatalf("got %s", got)
		}
	}
	c := connOf(s)
	s.Stop()
	if c.sock != nil && c.in.guess.Turn() == 0 {
		t.Error("none of the calls ran on the reader")
	}
}

// While the server waits for its last calls to end, one that waits does not keep
// what its client sends unread.
func TestStandInWhileStopping(t *testing.T) {
	s, addr := serve(t, Options{})
	r := connect(t, addr, true)
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "grpc-status=0") {
		t.Fatalf("got %s", got)
	}
	s.idleOnce.Do(func() { close(s.idle) }) // as GracefulStop does first
	slow := r.call("/test.Echo/Unary", "wait")
	for c, running := connOf(s), 0; running == 0; runtime.Gosched() {
		c.mu.Lock()
		running = c.handlers
		c.mu.Unlock()
	}
	r.write(appendPing(nil, 0, [8]byte{1}))
	for {
		f, _, err := r.frame()
		if err != nil {
			t.Fatalf("the ping is not answered: %v", err)
		}
		if f.kind == framePing && f.flags&flagAck != 0 {
			break
		}
	}
	r.write(appendReset(nil, slow, codeCancel))
}

// A call that has come whole is forgotten by nobody, also when its last frame
// ends the connection: whoever ends it waits for all calls.
func TestLastFrameIsAFault(t *testing.T) {
	s := New(Options{Codec: bytesCodec{}})
	s.RegisterService(service, nil)
	near, far := net.Pipe()
	defer near.Close()
	c := newIntake(s, far)
	c.rd.init(far)
	c.handshake, c.writing = true, true // a client that does not read
	c.out = make([]byte, maxControl+1)
	c.window.Used(int64(s.o.ConnWindow), math.MaxInt64) // to be given back with the next DATA
	r := &raw{t: t, nc: near, id: 1}
	r.enc = hpack.NewEncoder(&r.buf)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.call("/test.Echo/Unary", "hello")
	}()
	if err := c.read(); err == nil || !strings.Contains(err.Error(), "too many frames") {
		t.Errorf("got %v", err)
	}
	<-sent
	c.close()
	s.running.Wait()
	if c.handlers != 0 {
		t.Errorf("%d calls are left", c.handlers)
	}
}
