package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/client/internal/bounded"
	"github.com/nesoserve/neso/internal/elements"
	"github.com/nesoserve/neso/tensor"
)

const headerLength = "Inference-Header-Content-Length"

// The wire forms of a request's and a response's JSON.
type (
	wireOutput struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters,omitempty"`
	}
	wireRequest struct {
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Inputs     []wireInput    `json:"inputs"`
		Outputs    []wireOutput   `json:"outputs,omitempty"`
	}
	wireInput struct {
		Name       string          `json:"name"`
		Datatype   string          `json:"datatype"`
		Shape      tensor.Shape    `json:"shape"`
		Parameters map[string]any  `json:"parameters,omitempty"`
		Data       json.RawMessage `json:"data,omitempty"`
	}
	wireResponse struct {
		ModelName    string         `json:"model_name"`
		ModelVersion string         `json:"model_version"`
		ID           string         `json:"id"`
		Parameters   map[string]any `json:"parameters"`
		Outputs      []wireAnswer   `json:"outputs"`
	}
	wireAnswer struct {
		Name       string       `json:"name"`
		Datatype   string       `json:"datatype"`
		Shape      tensor.Shape `json:"shape"`
		Parameters struct {
			Size *int64 `json:"binary_data_size"`
		} `json:"parameters"`
		Data json.RawMessage `json:"data"`
	}
)

func (h *overHTTP) infer(ctx context.Context, q *Request) (*Response, error) {
	head, tail, err := encode(q)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if tail != nil {
		header["Content-Type"] = []string{"application/octet-stream"}
		header[headerLength] = []string{strconv.Itoa(len(head))}
	}
	maps.Copy(header, q.Header)
	parts := append([][]byte{head}, tail...)
	if h.c.Compress != "" {
		small, err := bounded.Compress(h.c.Compress, parts)
		if err != nil {
			return nil, err
		}
		parts, header["Content-Encoding"] = [][]byte{small}, []string{h.c.Compress}
	}
	if h.c.CompressAnswers != "" {
		header["Accept-Encoding"] = []string{h.c.CompressAnswers}
	}
	resp, err := h.send(ctx, http.MethodPost, withQuery(modelPath(q.Model, q.Version)+"/infer", q.Query), header, parts)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	length := resp.Header.Get(headerLength)
	before, _ := strconv.ParseUint(length, 10, 31) // the first tensor stands behind it
	answer, err := readAnswer(resp, h.limit, bounded.Lead(int(before)))
	if err != nil {
		return nil, err
	}
	r, err := decode(answer, length, q.OutputRegions)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", h.c.URL, err)
	}
	return r, nil
}

// sorted returns the keys of m, in an order that is the same each time.
func sorted[T any](m map[string]T) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// encode returns the JSON of a request and what stands behind it; the latter is nil
// if it has no tensor as bytes.
func encode(q *Request) (head []byte, tail [][]byte, err error) {
	w := wireRequest{ID: q.ID, Inputs: []wireInput{}}
	if w.Parameters, err = q.parameters(); err != nil {
		return nil, nil, err
	}
	if len(q.Outputs) == 0 && len(q.OutputRegions) == 0 && len(q.Classes) == 0 && !q.JSONOutputs {
		if w.Parameters == nil {
			w.Parameters = map[string]any{}
		}
		w.Parameters[paramBinaryOutputs] = true
	}
	for _, in := range q.Inputs {
		t := wireInput{Name: in.Name, Datatype: in.Datatype.String(), Shape: in.Shape}
		if t.Shape == nil {
			t.Shape = tensor.Shape{}
		}
		switch {
		case in.Region != nil:
			t.Parameters = in.Region.parameters()
		case in.JSON != nil:
			t.Data = in.JSON
		default:
			t.Parameters = map[string]any{paramBinarySize: len(in.Data)}
			tail = append(tail, in.Data)
		}
		w.Inputs = append(w.Inputs, t)
	}
	binary := map[string]any{paramBinary: !q.JSONOutputs}
	for _, name := range q.Outputs {
		if _, other := q.Classes[name]; !other {
			w.Outputs = append(w.Outputs, wireOutput{Name: name, Parameters: binary})
		}
	}
	for _, name := range sorted(q.Classes) {
		classes := map[string]any{paramClasses: q.Classes[name], paramBinary: !q.JSONOutputs}
		w.Outputs = append(w.Outputs, wireOutput{Name: name, Parameters: classes})
	}
	for _, name := range sorted(q.OutputRegions) {
		region := q.OutputRegions[name]
		w.Outputs = append(w.Outputs, wireOutput{Name: name, Parameters: region.parameters()})
	}
	head, err = json.Marshal(w)
	return head, tail, err
}

// decode takes an answer apart. length is the JSON's; "" means all of it. Of
// outputs that were to go into regions it holds no bytes.
func decode(answer []byte, length string, regions map[string]Region) (*Response, error) {
	head, tail := answer, []byte(nil)
	if length != "" {
		n, err := strconv.ParseInt(length, 10, 64)
		if err != nil || n < 0 || n > int64(len(answer)) {
			return nil, fmt.Errorf("its %s is %q: expected a number from 0 to %d", headerLength, length, len(answer))
		}
		head, tail = answer[:n], answer[n:]
	}
	var w wireResponse
	if err := json.Unmarshal(head, &w); err != nil {
		return nil, fmt.Errorf("its JSON: %w", err)
	}
	r := &Response{Model: w.ModelName, Version: w.ModelVersion, ID: w.ID, Parameters: w.Parameters, Final: true}
	if len(w.Outputs) > 0 {
		r.Outputs = make([]Output, len(w.Outputs))
	}
	for i := range w.Outputs {
		a, o := &w.Outputs[i], &r.Outputs[i]
		d, err := tensor.ParseDatatype(a.Datatype)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", a.Name, err)
		}
		*o = Output{Name: a.Name, Datatype: d, Shape: a.Shape}
		if region, ok := regions[a.Name]; ok {
			o.Region = &region
			continue
		}
		if tail, err = a.place(o, tail); err != nil {
			return nil, err
		}
	}
	if len(tail) > 0 {
		return nil, fmt.Errorf("%d bytes behind its last output", len(tail))
	}
	return r, nil
}

// place gives an output its bytes, and returns what is left of the tail.
func (a *wireAnswer) place(o *Output, tail []byte) ([]byte, error) {
	n := a.Parameters.Size
	switch {
	case n == nil && a.Data != nil:
		count, err := o.Shape.Elements()
		if err == nil {
			o.Data, err = elements.Parse(o.Datatype, a.Data, count)
		}
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", a.Name, err)
		}
		return tail, nil
	case n == nil || *n < 0 || *n > int64(len(tail)):
		return nil, fmt.Errorf("output %q: expected its bytes, %d are left of the answer", a.Name, len(tail))
	}
	o.Data = tail[:*n:*n]
	return tail[*n:], checkOutput(o)
}
