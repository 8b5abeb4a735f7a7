package backend

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nesoserve/neso/tensor"
)

func TestAsError(t *testing.T) {
	own := &Error{Code: NotFound, Message: "no", RetryAfter: time.Second}
	for _, c := range []struct {
		err  error
		want Error
	}{
		{own, *own},
		{fmt.Errorf("model 'm': %w", own), Error{NotFound, "model 'm': no", time.Second}},
		{context.Canceled, Error{Code: Cancelled, Message: "context canceled"}},
		{fmt.Errorf("late: %w", context.DeadlineExceeded), Error{Code: Cancelled, Message: "late: context deadline exceeded"}},
		{errors.New("odd"), Error{Code: Internal, Message: "odd"}},
	} {
		if got := AsError(c.err); *got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.err, *got, c.want)
		}
	}
	if AsError(nil) != nil {
		t.Error("nil is an error")
	}
	if Code(99).String() != "Unknown" || InvalidArg.String() != "Invalid argument" {
		t.Error("code words")
	}
}

func TestParameterValues(t *testing.T) {
	for _, c := range []struct {
		p    Parameter
		want any
	}{
		{String("a", "x"), "x"}, {Int("a", -3), int64(-3)}, {Uint("a", 1<<63), uint64(1 << 63)}, {Bool("a", true), true}, {Bool("a", false), false}, {Double("a", 1.5), 1.5},
	} {
		if got := c.p.Value(); got != c.want || c.p.Name != "a" {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

// answers collects what a request is answered with.
type answers struct{ got []*Response }

func (a *answers) Respond(r *Response, _ bool) error { a.got = append(a.got, r); return nil }
func (a *answers) Cancelled() bool                   { return false }

func TestScatter(t *testing.T) {
	sinks := []*answers{{}, {}}
	batch := &Batch{Size: 3}
	for i, rows := range []int{1, 2} {
		batch.Requests = append(batch.Requests, &Request{BatchSize: rows, Requested: []string{"N", "S"}, Responder: sinks[i]})
	}
	buffer := tensor.NewBuffer([]byte{1, 2, 3}, nil)
	text := []byte{1, 0, 0, 0, 'a', 0, 0, 0, 0, 2, 0, 0, 0, 'b', 'c'}
	outputs := []tensor.Tensor{
		{Name: "N", Datatype: tensor.Uint8, Shape: tensor.Shape{3}, Data: buffer.Bytes(), Buffer: buffer},
		{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{3, 1}, Data: text},
		{Name: "unasked", Datatype: tensor.Uint8, Shape: tensor.Shape{3}, Data: []byte{7, 8, 9}},
	}
	if err := batch.Scatter(outputs); err != nil {
		t.Fatal(err)
	}
	second := sinks[1].got[0].Outputs
	if len(sinks[0].got) != 1 || len(second) != 2 || string(second[0].Data) != "\x02\x03" || !second[1].Shape.Equal(tensor.Shape{2, 1}) || string(second[1].Data) != "\x00\x00\x00\x00\x02\x00\x00\x00bc" {
		t.Errorf("got %+v", second)
	}
	if n := buffer.References(); n != 2 {
		t.Errorf("%d references, want one for each request", n)
	}
	for _, s := range sinks {
		s.got[0].Release()
	}
	if n := buffer.References(); n != 0 {
		t.Errorf("%d references left", n)
	}
}

func TestScatterRefusesWrongOutputs(t *testing.T) {
	for name, o := range map[string]tensor.Tensor{
		"rows":     {Name: "N", Datatype: tensor.Uint8, Shape: tensor.Shape{2}, Data: []byte{1, 2}},
		"no batch": {Name: "N", Datatype: tensor.Uint8, Data: []byte{1}},
		"bytes":    {Name: "N", Datatype: tensor.FP32, Shape: tensor.Shape{3}, Data: []byte{1, 2, 3}},
		"elements": {Name: "N", Datatype: tensor.Bytes, Shape: tensor.Shape{3}, Data: make([]byte, 8)},
		"cut off":  {Name: "N", Datatype: tensor.Bytes, Shape: tensor.Shape{3}, Data: []byte{1, 2}},
	} {
		sink := &answers{}
		batch := &Batch{Size: 3, Requests: []*Request{{BatchSize: 3, Requested: []string{"N"}, Responder: sink}}}
		if err := batch.Scatter([]tensor.Tensor{o}); err == nil || len(sink.got) != 0 {
			t.Errorf("%s: error %v, answers %d", name, err, len(sink.got))
		}
	}
}

func TestTimestampsAreOnOneClock(t *testing.T) {
	a := Now()
	if d := time.Since(Time(a)); d < 0 || d > time.Minute {
		t.Errorf("Time(Now()) is %v ago", d)
	}
	if b := Now(); b < a || a < 1 {
		t.Errorf("%d after %d", b, a)
	}
}
