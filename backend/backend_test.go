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
		{fmt.Errorf("model 'm': %w", own), Error{Code: NotFound, Message: "model 'm': no", RetryAfter: time.Second}},
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
		{String("a", "x"), "x"},
		{Int("a", -3), int64(-3)},
		{Uint("a", 1<<63), uint64(1 << 63)},
		{Bool("a", true), true},
		{Bool("a", false), false},
		{Double("a", 1.5), 1.5},
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
	if len(sinks[0].got) != 1 || len(second) != 2 || string(second[0].Data) != "\x02\x03" || !second[1].Shape.Equal(tensor.Shape{2, 1}) ||
		string(second[1].Data) != "\x00\x00\x00\x00\x02\x00\x00\x00bc" {
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

// ragged is a batch of two requests with inputs of other shapes, whose output
// has the shape of the input.
func ragged(sinks ...*answers) *Batch {
	b := &Batch{Size: 3, Scattered: []Scattered{{Output: "OUT", Source: "IN", Dims: tensor.Shape{-1, 2}, Batching: true}}}
	for i, shape := range []tensor.Shape{{1, 2, 9}, {2, 1, 9}} {
		b.Requests = append(b.Requests, &Request{
			BatchSize: int(shape[0]), Requested: []string{"OUT"}, Responder: sinks[i], Inputs: []tensor.Tensor{{Name: "IN", Shape: shape}},
		})
	}
	return b
}

func TestScatterByTheShapeOfAnInput(t *testing.T) {
	for _, shape := range []tensor.Shape{{8}, {4, 2}} {
		sinks := []*answers{{}, {}}
		out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: shape, Data: []byte("abcdefgh")}
		if err := ragged(sinks...).Scatter([]tensor.Tensor{out}); err != nil {
			t.Fatal(err)
		}
		a, b := sinks[0].got[0].Outputs[0], sinks[1].got[0].Outputs[0]
		if !a.Shape.Equal(tensor.Shape{1, 2, 2}) || string(a.Data) != "abcd" || !b.Shape.Equal(tensor.Shape{2, 1, 2}) ||
			string(b.Data) != "efgh" {
			t.Errorf("%s: got %s %q, %s %q", shape, a.Shape, a.Data, b.Shape, b.Data)
		}
	}
	for name, c := range map[string]struct {
		batch *Batch
		data  string
		want  string
	}{
		"too few": {
			ragged(&answers{}, &answers{}), "abcdefg",
			"output 'OUT' has 7 elements in shape [7], expected 8 by the shapes of input 'IN'",
		},
		"no such input": {func() *Batch {
			b := ragged(&answers{}, &answers{})
			b.Requests[1].Inputs[0].Name = "OTHER"
			return b
		}(), "abcdefgh", "output 'OUT' is to have the shape of input 'IN', which does not fit it"},
		"input of lower rank": {func() *Batch {
			b := ragged(&answers{}, &answers{})
			b.Requests[1].Inputs[0].Shape = tensor.Shape{2}
			return b
		}(), "abcdefgh", "output 'OUT' is to have the shape of input 'IN', which does not fit it"},
		"a sum that wraps": {func() *Batch {
			b := ragged(&answers{}, &answers{})
			for _, r := range b.Requests {
				r.Inputs[0].Shape, r.BatchSize = tensor.Shape{1, 1 << 61, 0}, 1
			}
			return b
		}(), "", "output 'OUT' has 0 elements in shape [0], expected 9223372036854775807 by the shapes of input 'IN'"},
	} {
		out := tensor.Tensor{Name: "OUT", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(c.data))}, Data: []byte(c.data)}
		if err := c.batch.Scatter([]tensor.Tensor{out}); err == nil || AsError(err).Message != c.want {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
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
