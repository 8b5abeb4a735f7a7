package infer

import (
	"context"
	"errors"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// owner counts, and refuses responses with an output named "bad".
type owner struct{ finished int }

func (o *owner) CheckResponse(_ *Request, resp *backend.Response) {
	if len(resp.Outputs) > 0 && resp.Outputs[0].Name == "bad" {
		resp.Err = backend.Errorf(backend.Internal, "bad output")
	}
}

func (*owner) CountResponse(*Request, *backend.Response, int) {}

func (o *owner) Finish(*Request) { o.finished++ }

func response(name string) (*backend.Response, *tensor.Buffer) {
	b := tensor.NewBuffer(make([]byte, 4), nil)
	return &backend.Response{Outputs: []tensor.Tensor{{Name: name, Data: b.Bytes(), Buffer: b}}}, b
}

func TestSingleResponse(t *testing.T) {
	s, o := NewSingle(), &owner{}
	ended := 0
	r := New(s, func(*Request) { ended++ })
	r.Owner = o
	resp, buffer := response("y")
	if err := r.Respond(resp, true); err != nil {
		t.Fatal(err)
	}
	got, err := s.Wait()
	if err != nil || got != resp || o.finished != 1 || ended != 1 || !r.Ended() {
		t.Errorf("%v %v, finished %d, ended %d", got, err, o.finished, ended)
	}
	late, lateBuffer := response("y")
	if err := r.Respond(late, true); !errors.Is(err, ErrEnded) || lateBuffer.References() != 0 {
		t.Errorf("a second final response: %v, %d references", err, lateBuffer.References())
	}
	r.Fail(errors.New("too late"), Other)
	if o.finished != 1 || buffer.References() != 1 {
		t.Errorf("finished %d times, %d references", o.finished, buffer.References())
	}
}

// payer counts the requests of a key.
type payer struct{ requests int }

func (*payer) Name() string              { return "key" }
func (p *payer) Leave(int64)             { p.requests-- }
func (*payer) Grow(int64) *backend.Error { return nil }

// counting notes what its payer counts while it is given the final response.
type counting struct {
	payer *payer
	seen  int
}

func (c *counting) Deliver(_ *Request, resp *backend.Response, _ bool) {
	c.seen = c.payer.requests
	resp.Release()
}

func TestPayerIsFreeBeforeTheAnswer(t *testing.T) {
	p := &payer{requests: 1}
	c := &counting{payer: p, seen: -1}
	r := New(c, func(r *Request) { r.LeavePayer() })
	r.Payer = p
	r.Hold() // as an access line does, or a backend that is not back yet
	resp, _ := response("y")
	if err := r.Respond(resp, true); err != nil {
		t.Fatal(err)
	}
	if c.seen != 0 {
		t.Errorf("the client has its answer while its key counts %d requests: its next one would be refused", c.seen)
	}
	r.Drop()
	if p.requests != 0 || r.Payer == nil {
		t.Errorf("%d requests after the end, payer %v", p.requests, r.Payer)
	}
}

func TestNotExactlyOneResponse(t *testing.T) {
	for _, n := range []int{0, 2, 3} {
		s := NewSingle()
		r := New(s, nil)
		var buffers []*tensor.Buffer
		for range n {
			resp, b := response("y")
			buffers = append(buffers, b)
			if err := r.Respond(resp, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Respond(nil, true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(); err == nil || err.Code != backend.Internal {
			t.Errorf("%d responses: %v", n, err)
		}
		for _, b := range buffers {
			if b.References() != 0 {
				t.Errorf("%d responses: a buffer is left", n)
			}
		}
	}
}

func TestCheckedResponseBecomesAnError(t *testing.T) {
	s := NewSingle()
	r := New(s, nil)
	r.Owner = &owner{}
	resp, b := response("bad")
	_ = r.Respond(resp, true)
	_, err := s.Wait()
	if failure, why := r.Failure(); err == nil || err.Message != "bad output" || b.References() != 0 || failure == nil || why != Backend {
		t.Errorf("%v, %d references, %v %v", err, b.References(), failure, why)
	}
}

func TestInputsLiveUntilTheLastHold(t *testing.T) {
	b := tensor.NewBuffer(make([]byte, 4), nil)
	r := New(NewSingle(), nil)
	r.Inputs = []tensor.Tensor{{Name: "x", Data: b.Bytes(), Buffer: b}}
	r.Hold()
	r.Fail(errors.New("no"), Rejected)
	if b.References() != 1 {
		t.Fatal("released while held")
	}
	r.Drop()
	if b.References() != 0 {
		t.Error("not released")
	}
}

func TestDiscardEndsWithoutAnAnswer(t *testing.T) {
	ended := 0
	r := New(nil, func(*Request) { ended++ })
	r.Discard()
	r.Discard()
	if ended != 1 {
		t.Errorf("ended %d times", ended)
	}
}

func TestCancelledStream(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := New(NewSingle(), nil)
	r.Ctx = ctx
	if r.Cancelled() {
		t.Error("cancelled too early")
	}
	cancel()
	resp, _ := response("y")
	err := r.Respond(resp, false)
	if e := backend.AsError(err); e == nil || e.Code != backend.Cancelled || !r.Cancelled() {
		t.Errorf("a response to nobody: %v", err)
	}
	if err := r.Respond(nil, true); err != nil {
		t.Errorf("the final response is owed: %v", err)
	}
}

func TestPhases(t *testing.T) {
	for name, c := range map[string]struct {
		times Times
		want  [4]int64
	}{
		"all":          {Times{Start: 10, Queue: 20, ComputeStart: 50, InputEnd: 60, OutputStart: 100, ComputeEnd: 105}, [4]int64{30, 10, 40, 5}},
		"no phases":    {Times{Start: 10, ComputeStart: 50, End: 90}, [4]int64{40, 0, 40, 0}},
		"never queued": {Times{Start: 10, ComputeStart: 10, InputEnd: 12, End: 20}, [4]int64{0, 2, 8, 0}},
	} {
		q, i, f, o := c.times.Phases()
		if got := [4]int64{q, i, f, o}; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
