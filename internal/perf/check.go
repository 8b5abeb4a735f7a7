package perf

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/tensor"
)

// check returns what compares answers with what the data expects, nil if it expects
// nothing.
func (p *prepared) check() func(*wire.Prepared, *drive.Answer) error {
	expects := false
	for _, stream := range p.set.Streams {
		for i := range stream {
			expects = expects || len(stream[i].Expected) > 0
		}
	}
	if !expects {
		return nil
	}
	return func(r *wire.Prepared, a *drive.Answer) error {
		if len(r.Step.Expected) == 0 {
			return nil
		}
		outputs, err := p.outputs(a.LastBody(), a.Header)
		if err != nil {
			return &drive.Failure{Kind: "malformed answer", Text: err.Error()}
		}
		return compare(outputs, r.Step.Expected)
	}
}

func compare(outputs, expected []data.Tensor) error {
	for _, want := range expected {
		found := false
		for _, got := range outputs {
			if got.Name != want.Name {
				continue
			}
			found = true
			if !bytes.Equal(got.Bytes, want.Bytes) {
				return &drive.Failure{
					Kind: "unexpected output",
					Text: fmt.Sprintf("'%s' is %.200s, expected %.200s", want.Name, wire.Elements(&got), wire.Elements(&want)),
				}
			}
		}
		if !found {
			return &drive.Failure{Kind: "unexpected output", Text: fmt.Sprintf("the answer has no '%s'", want.Name)}
		}
	}
	return nil
}

// outputs takes an answer apart; header is how much of it is JSON, -1 if all is.
func (p *prepared) outputs(body []byte, header int) ([]data.Tensor, error) {
	if p.o.Protocol == "grpc" || p.o.Kind == "triton_c_api" {
		return wire.Outputs(body)
	}
	head, tail := body, []byte(nil)
	if header >= 0 && header <= len(body) {
		head, tail = body[:header], body[header:]
	}
	var answer struct {
		Outputs []struct {
			Name, Datatype string
			Shape          tensor.Shape
			Data           json.RawMessage
			Parameters     struct {
				Size *int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal(head, &answer); err != nil {
		return nil, err
	}
	var out []data.Tensor
	for _, o := range answer.Outputs {
		t := data.Tensor{Name: o.Name, Datatype: tensor.LookupDatatype(o.Datatype), Shape: o.Shape}
		switch size := o.Parameters.Size; {
		case size != nil && *size >= 0 && *size <= len(tail):
			t.Bytes, tail = tail[:*size], tail[*size:]
		case len(o.Data) > 0:
			var err error
			if t.Bytes, err = data.FromJSON(o.Data, t.Datatype); err != nil {
				return nil, err
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// recorded takes the responses to a request apart.
func (p *prepared) recorded(r *measure.Record) ([][]data.Tensor, error) {
	ends := r.Ends
	if len(ends) == 0 {
		ends = []int{len(r.Body)}
	}
	var all [][]data.Tensor
	from := 0
	for _, end := range ends {
		outputs, err := p.outputs(r.Body[from:end], r.Header)
		if err != nil {
			return nil, err
		}
		all, from = append(all, outputs), end
	}
	return all, nil
}
