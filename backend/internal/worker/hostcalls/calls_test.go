package hostcalls

import (
	"errors"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// host is a server whose models answer when the test does.
type host struct {
	backend.Host
	requests []*backend.Request
}

func (h *host) Infer(r *backend.Request) error {
	h.requests = append(h.requests, r)
	return nil
}

// caller notes what its calls say.
type caller struct {
	Calls
	host    host
	later   []func() // what is to run beside the reader
	replies map[uint64]string
	sent    []Answer
	lend    bool
}

func newCaller() *caller {
	c := &caller{replies: map[uint64]string{}}
	c.Init(Worker{
		Host: &c.host,
		Go:   func(f func()) { c.later = append(c.later, f) },
		Reply: func(id uint64, _ any, err error) error {
			c.replies[id] = "done"
			if err != nil {
				c.replies[id] = err.Error()
			}
			return nil
		},
		Send: func(a Answer, _ bool) error {
			c.sent = append(c.sent, a)
			ReleaseShared(a.Shared)
			return nil
		},
		Lend: func(*tensor.Tensor) (wire.Place, bool) { return wire.Place{Segment: wire.FirstLentSegment}, c.lend },
	})
	return c
}

// infer begins a call and lets it run.
func (c *caller) infer(t *testing.T, id uint64, edit func(*wire.InferCall), o Options) *backend.Request {
	t.Helper()
	h := wire.Header{Kind: wire.KindInfer, ID: id}
	decoded := wire.InferCall{Model: []byte("m"), Version: -1}
	if edit != nil {
		edit(&decoded)
	}
	req, err := Request(h, &decoded)
	if err != nil {
		t.Fatal(err)
	}
	call, err := c.Infer(t.Context(), h, &decoded, req, o)
	if err != nil {
		t.Fatal(err)
	}
	if call != nil {
		call.Run()
	}
	return req
}

// TestCallsAreBounded: a worker has so many calls under way, of all sorts together.
func TestCallsAreBounded(t *testing.T) {
	c := newCaller()
	for id := range uint64(callLimit - 1) {
		if err := c.Run(id, func() (any, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	last := c.infer(t, callLimit, nil, Options{})
	if err := c.Run(callLimit+1, func() (any, error) { return nil, nil }); err != nil ||
		!strings.Contains(c.replies[callLimit+1], "more than 1024 calls") {
		t.Errorf("one more: %v, %q", err, c.replies[callLimit+1])
	}
	c.infer(t, callLimit+2, nil, Options{})
	if n := len(c.sent); n != 1 || c.sent[0].Out.Err == nil || c.sent[0].Out.Err.Code != backend.Unavailable || len(c.host.requests) != 1 {
		t.Errorf("one more INFER: %+v", c.sent)
	}
	for _, f := range c.later {
		f()
	}
	if err := last.Responder.Respond(&backend.Response{}, true); err != nil {
		t.Error(err)
	}
	if c.running != 0 || len(c.infers) != 0 || len(c.replies) != callLimit {
		t.Errorf("%d run, %d INFER, %d replies", c.running, len(c.infers), len(c.replies))
	}
}

// TestAnsweredByItself: what has answered the call has no other answer, but when it
// fails.
func TestAnsweredByItself(t *testing.T) {
	c := newCaller()
	_ = c.Run(1, func() (any, error) { return Answered, nil })
	_ = c.Run(2, func() (any, error) { return Answered, errors.New("no memory") })
	for _, f := range c.later {
		f()
	}
	if len(c.replies) != 1 || c.replies[2] != "no memory" {
		t.Errorf("replies %v", c.replies)
	}
}

// TestOneAnswerIsExpected: the server is told whether a call takes one response, which
// then waits for the end; another call gets each.
func TestOneAnswerIsExpected(t *testing.T) {
	for _, decoupled := range []bool{false, true} {
		c := newCaller()
		r := c.infer(t, 1, func(d *wire.InferCall) { d.Decoupled = decoupled }, Options{})
		if r.Caller.Single == decoupled {
			t.Errorf("decoupled %v, single %v", decoupled, r.Caller.Single)
		}
		if err := r.Responder.Respond(&backend.Response{}, false); err != nil {
			t.Error(err)
		}
		if err := r.Responder.Respond(nil, true); err != nil {
			t.Error(err)
		}
		if err := r.Responder.Respond(&backend.Response{}, true); err == nil {
			t.Error("answered after the end")
		}
		switch {
		case decoupled && (len(c.sent) != 2 || c.sent[1].Out.Flags != wire.ResponseFinal|wire.ResponseNone):
			t.Errorf("sent %+v", c.sent)
		case !decoupled && (len(c.sent) != 1 || c.sent[0].Out.Flags != wire.ResponseFinal):
			t.Errorf("sent %+v", c.sent)
		}
	}
}

// TestCancel ends the request of a call.
func TestCancel(t *testing.T) {
	c := newCaller()
	r := c.infer(t, 1, nil, Options{})
	c.Cancel(2)
	if r.Cancelled() {
		t.Error("another one was cancelled")
	}
	c.Cancel(1)
	if !r.Cancelled() || r.Ctx.Err() == nil {
		t.Error("not cancelled")
	}
	_ = r.Responder.Respond(nil, true)
}

// TestLargeOutputs are lent, else copied into the caller's memory, else sent in the
// frame.
func TestLargeOutputs(t *testing.T) {
	arena := segment.NewArena(nil, 0, 0)
	defer arena.Close()
	for _, test := range []struct {
		name   string
		o      Options
		lend   bool
		size   int
		shared bool
	}{
		{"small", Options{Arena: arena, Inline: 64}, true, 64, false},
		{"lent", Options{Arena: arena, Inline: 64}, true, 65, true},
		{"copied", Options{Arena: arena, Inline: 64}, false, 65, true},
		{"no memory", Options{Inline: 64}, true, 65, false},
	} {
		c := newCaller()
		c.lend = test.lend
		r := c.infer(t, 1, nil, test.o)
		data := make([]byte, test.size)
		buf := tensor.NewBuffer(data, nil)
		out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(test.size)}, Data: data, Buffer: buf.Retain()}
		if err := r.Responder.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true); err != nil {
			t.Fatal(err)
		}
		a := c.sent[0]
		if (len(a.Shared) == 1) != test.shared || test.shared &&
			(a.Shared[0].Lent != test.lend || (a.Out.Places[0].Segment != wire.InlineSegment) != test.lend) {
			t.Errorf("%s: %+v", test.name, a)
		}
		if n := buf.References(); n != 1 {
			t.Errorf("%s: %d references are left", test.name, n)
		}
	}
}
