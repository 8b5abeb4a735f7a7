package testmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/elements"
	"github.com/nesoserve/neso/tensor"
)

// sample is a request to a model and what it should answer.
type sample struct {
	name    string
	request neso.Request
	expect  *expectation
}

// expectation is what a sample's model should answer: outputs, or an error.
type expectation struct {
	Outputs   []sampleTensor `json:"outputs"`
	Tolerance float64        `json:"tolerance"` // relative and absolute, for floating point
	Error     string         `json:"error"`     // part of its text
}

// sampleTensor is a tensor as a client's JSON has it.
type sampleTensor struct {
	Name     string          `json:"name"`
	Datatype string          `json:"datatype"`
	Shape    tensor.Shape    `json:"shape"`
	Data     json.RawMessage `json:"data"`
}

// sampleBody is a file of a sample: the body of an inference request, and what
// is expected.
type sampleBody struct {
	ID         string         `json:"id"`
	Parameters map[string]any `json:"parameters"`
	Inputs     []sampleTensor `json:"inputs"`
	Outputs    []sampleTensor `json:"outputs"`
	Expect     *expectation   `json:"expect"`
}

// parseSample reads a sample. Faults name what is wrong.
func parseSample(text []byte) (sample, error) {
	var body sampleBody
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		return sample{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return sample{}, errors.New("something follows the request")
	}
	s := sample{expect: body.Expect, request: neso.Request{ID: body.ID}}
	for i := range body.Inputs {
		t, err := body.Inputs[i].tensor()
		if err != nil {
			return sample{}, fmt.Errorf("input '%s': %w", body.Inputs[i].Name, err)
		}
		s.request.Inputs = append(s.request.Inputs, t)
	}
	for _, o := range body.Outputs {
		s.request.Outputs = append(s.request.Outputs, o.Name)
	}
	return s, s.parameters(body.Parameters)
}

// parameters takes those that mean something to the server, and hands on the
// others.
func (s *sample) parameters(all map[string]any) error {
	q := &s.request
	for name, value := range all {
		number, isNumber := value.(json.Number)
		n, err := int64(0), error(nil)
		if isNumber {
			n, err = number.Int64()
		}
		text, isText := value.(string)
		flag, isFlag := value.(bool)
		switch {
		case name == "sequence_id" && isText:
			q.Correlation.Text = text
		case name == "sequence_id" && isNumber && err == nil:
			q.Correlation.Number = uint64(n)
		case name == "sequence_start" && isFlag:
			if flag {
				q.Flags |= backend.SequenceStart
			}
		case name == "sequence_end" && isFlag:
			if flag {
				q.Flags |= backend.SequenceEnd
			}
		case name == "priority" && isNumber && err == nil:
			q.Priority = uint64(n)
		case name == "timeout" && isNumber && err == nil:
			q.Timeout = uint64(n)
		case isText:
			q.Parameters = append(q.Parameters, backend.String(name, text))
		case isFlag:
			q.Parameters = append(q.Parameters, backend.Bool(name, flag))
		case isNumber && err == nil:
			q.Parameters = append(q.Parameters, backend.Int(name, n))
		default:
			return fmt.Errorf("parameter '%s' has the value %v", name, value)
		}
	}
	return nil
}

// tensor turns data into a tensor's bytes.
func (t *sampleTensor) tensor() (tensor.Tensor, error) {
	datatype, err := tensor.ParseDatatype(t.Datatype)
	if err != nil {
		return tensor.Tensor{}, err
	}
	want, err := t.Shape.Elements()
	if err != nil {
		return tensor.Tensor{}, err
	}
	data, count, err := t.elements(datatype)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if want != count {
		return tensor.Tensor{}, fmt.Errorf("data has %d elements, shape %s has %d", count, t.Shape, want)
	}
	return tensor.Tensor{Name: t.Name, Datatype: datatype, Shape: t.Shape, Data: data}, nil
}

// elements returns the bytes of data, and how many elements it has: none if there is none.
func (t *sampleTensor) elements(d tensor.Datatype) ([]byte, int64, error) {
	if t.Data == nil {
		return []byte{}, 0, nil
	}
	return elements.Read(d, t.Data, math.MaxInt64)
}

// check compares what came with what is expected; without an expectation,
// every response that is no error is right.
func (s *sample) check(responses []*backend.Response) error {
	var failed error
	for _, r := range responses {
		if r.Err != nil {
			failed = r.Err
		}
	}
	switch e := s.expect; {
	case e == nil || e.Error == "" && failed != nil:
		return failed
	case e.Error != "" && failed == nil:
		return fmt.Errorf("expected the error %q, found none", e.Error)
	case e.Error != "":
		if !strings.Contains(failed.Error(), e.Error) {
			return fmt.Errorf("expected the error %q, found %q", e.Error, failed.Error())
		}
		return nil
	}
	for i := range s.expect.Outputs {
		if err := s.expect.output(&s.expect.Outputs[i], responses); err != nil {
			return err
		}
	}
	return nil
}

// output compares an expected output with that of the responses: the last one
// that has it.
func (e *expectation) output(want *sampleTensor, responses []*backend.Response) error {
	var got *tensor.Tensor
	for _, r := range responses {
		for i := range r.Outputs {
			if r.Outputs[i].Name == want.Name {
				got = &r.Outputs[i]
			}
		}
	}
	switch {
	case got == nil:
		return fmt.Errorf("expected output '%s', found none", want.Name)
	case want.Datatype != "" && want.Datatype != got.Datatype.String():
		return fmt.Errorf("output '%s': expected datatype %s, found %s", want.Name, want.Datatype, got.Datatype)
	case want.Shape != nil && !want.Shape.Equal(got.Shape):
		return fmt.Errorf("output '%s': expected shape %s, found %s", want.Name, want.Shape, got.Shape)
	case want.Data == nil:
		return nil
	}
	data, count, err := want.elements(got.Datatype)
	if err != nil {
		return fmt.Errorf("expected output '%s': %w", want.Name, err)
	}
	found := decode(got)
	if int64(len(found)) != count {
		return fmt.Errorf("output '%s': expected %d elements, found %d", want.Name, count, len(found))
	}
	for i, v := range decode(&tensor.Tensor{Datatype: got.Datatype, Data: data}) {
		if !e.same(v, found[i]) {
			return fmt.Errorf("output '%s', element %d: expected %v, found %v", want.Name, i, v, found[i])
		}
	}
	return nil
}

// same compares two elements of a tensor.
func (e *expectation) same(want, got any) bool {
	w, ok := want.(float64)
	if !ok {
		return want == got
	}
	tolerance := e.Tolerance
	if tolerance == 0 {
		tolerance = 1e-5
	}
	return math.Abs(w-got.(float64)) <= tolerance*max(1, math.Abs(w))
}
