package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/tensor"
)

const headerLength = "Inference-Header-Content-Length"

// Request is one inference request.
type Request struct {
	Model string
	// Version of the model; "" lets the server choose.
	Version string
	ID      string
	Inputs  []Input
	// Outputs names the outputs wanted; empty means all.
	Outputs []string
	// OutputRegions takes outputs, by their names, into shared memory instead of the
	// answer. They are wanted in addition to Outputs; when that is empty, nothing
	// else is.
	OutputRegions map[string]Region
	// Parameters hold strings, numbers and booleans: sequence_id, priority,
	// timeout (microseconds), and those of the model.
	Parameters map[string]any
}

// Input is a tensor of a request: its bytes, or its elements as JSON.
type Input struct {
	Name     string
	Datatype tensor.Datatype
	// Shape includes the batch dimension of a model that batches.
	Shape tensor.Shape
	// Data holds the elements, little-endian, row-major; BYTES elements each
	// behind their length as uint32.
	Data []byte
	// JSON holds the elements as a JSON array, nested or flat, instead of Data.
	JSON json.RawMessage
	// Region is where the elements lie, in the form of Data, instead of Data.
	Region *Region
}

// Response is the answer to a request.
type Response struct {
	Model, Version, ID string
	Outputs            []Output
	Parameters         map[string]any
}

// Output is a tensor of a response; Data as in Input.
type Output struct {
	Name     string
	Datatype tensor.Datatype
	Shape    tensor.Shape
	Data     []byte
	// Region is where the elements have been written, instead of Data.
	Region *Region
}

// Output returns the output of that name, or nil.
func (r *Response) Output(name string) *Output {
	for i := range r.Outputs {
		if r.Outputs[i].Name == name {
			return &r.Outputs[i]
		}
	}
	return nil
}

// The wire forms of a request's and a response's JSON.
type (
	wireOutput struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
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
		Outputs      []struct {
			Name       string       `json:"name"`
			Datatype   string       `json:"datatype"`
			Shape      tensor.Shape `json:"shape"`
			Parameters struct {
				Size *int `json:"binary_data_size"`
			} `json:"parameters"`
		} `json:"outputs"`
	}
)

// Infer sends a request and returns its answer; tensors travel as bytes.
func (c *Client) Infer(ctx context.Context, q *Request) (*Response, error) {
	head, tail, err := encode(q)
	if err != nil {
		return nil, err
	}
	header := http.Header{headerLength: {strconv.Itoa(len(head))}}
	body := head
	for _, data := range tail {
		body = append(body, data...)
	}
	resp, err := c.send(ctx, http.MethodPost, modelPath(q.Model, q.Version)+"/infer", header, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := readAll(resp.Body, 1<<40) // the model's business
	if err != nil {
		return nil, err
	}
	return decode(answer, resp.Header.Get(headerLength), q.OutputRegions)
}

func encode(q *Request) (head []byte, tail [][]byte, err error) {
	w := wireRequest{ID: q.ID, Parameters: map[string]any{}, Inputs: []wireInput{}}
	maps.Copy(w.Parameters, q.Parameters)
	if len(q.Outputs) == 0 && len(q.OutputRegions) == 0 {
		w.Parameters["binary_data_output"] = true
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
			t.Parameters = map[string]any{"binary_data_size": len(in.Data)}
			tail = append(tail, in.Data)
		}
		w.Inputs = append(w.Inputs, t)
	}
	for _, name := range q.Outputs {
		w.Outputs = append(w.Outputs, wireOutput{Name: name, Parameters: map[string]any{"binary_data": true}})
	}
	for _, name := range slices.Sorted(maps.Keys(q.OutputRegions)) {
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
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(answer) {
			return nil, fmt.Errorf("the answer's %s is %q: expected a number from 0 to %d", headerLength, length, len(answer))
		}
		head, tail = answer[:n], answer[n:]
	}
	var w wireResponse
	if err := json.Unmarshal(head, &w); err != nil {
		return nil, fmt.Errorf("the answer's JSON: %w", err)
	}
	r := &Response{Model: w.ModelName, Version: w.ModelVersion, ID: w.ID, Parameters: w.Parameters}
	for _, o := range w.Outputs {
		d, err := tensor.ParseDatatype(o.Datatype)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", o.Name, err)
		}
		if region, ok := regions[o.Name]; ok {
			r.Outputs = append(r.Outputs, Output{Name: o.Name, Datatype: d, Shape: o.Shape, Region: &region})
			continue
		}
		n := o.Parameters.Size
		if n == nil || *n < 0 || *n > len(tail) {
			return nil, fmt.Errorf("output %q: expected its bytes, %d are left of the answer", o.Name, len(tail))
		}
		r.Outputs = append(r.Outputs, Output{Name: o.Name, Datatype: d, Shape: o.Shape, Data: tail[:*n:*n]})
		tail = tail[*n:]
	}
	return r, nil
}
