package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/nesoserve/neso/internal/elements"
	"github.com/nesoserve/neso/tensor"
)

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
	// Classes asks, by the names of outputs, for so many of the highest values as
	// texts "value:index:label" (BYTES) in place of the output. They are wanted as
	// those of OutputRegions are.
	Classes map[string]int
	// JSONOutputs asks for outputs as JSON over HTTP, for servers that know no bytes.
	// What Response has is the same. FP16 and BF16 cannot be sent so.
	JSONOutputs bool
	// Sequence is what the request is a step of, nil if of none.
	Sequence *Sequence
	// Priority of the request in the model's queue, 1 is the highest; 0: the model's default.
	Priority uint64
	// Timeout is how long the request may wait in the model's queue; 0: the model's
	// default. The context ends the whole call.
	Timeout time.Duration
	// EmptyFinal asks a decoupled model for a last response that may be empty, which
	// says that it is the last (Response.Final); for Stream, where many requests share
	// one stream.
	EmptyFinal bool
	// Parameters hold strings, numbers and booleans for the model, and those of the
	// protocol that have no field.
	Parameters map[string]any
	// Header is added to the request, in addition to that of the Client; not on a
	// Stream, whose headers are sent when it is opened.
	Header http.Header
	// Query is added to the URL of the request over HTTP, in addition to that of the Client.
	Query url.Values
}

// Sequence says what sequence a request belongs to, by a number or a text, and
// whether it is its first or last.
type Sequence struct {
	ID uint64
	// Name is the sequence in place of ID, at most 128 bytes.
	Name       string
	Start, End bool
}

// The names of parameters that have a meaning in the protocol.
const (
	paramSequenceID    = "sequence_id"
	paramSequenceStart = "sequence_start"
	paramSequenceEnd   = "sequence_end"
	paramPriority      = "priority"
	paramTimeout       = "timeout"
	paramEmptyFinal    = "triton_enable_empty_final_response"
	paramFinal         = "triton_final_response"
	paramBinaryOutputs = "binary_data_output"
	paramBinary        = "binary_data"
	paramBinarySize    = "binary_data_size"
	paramClasses       = "classification"
)

// parameters returns Parameters with those that have fields.
func (q *Request) parameters() (map[string]any, error) {
	if len(q.Parameters) == 0 && q.Sequence == nil && q.Priority == 0 && q.Timeout <= 0 && !q.EmptyFinal {
		return nil, nil
	}
	all := make(map[string]any, len(q.Parameters)+4)
	for name, value := range q.Parameters {
		plain, err := parameter(value)
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", name, err)
		}
		all[name] = plain
	}
	if s := q.Sequence; s != nil {
		switch {
		case s.Name != "" && s.ID != 0:
			return nil, fmt.Errorf("the sequence has an ID, %d, and a Name, %q: expected one of them", s.ID, s.Name)
		case s.Name != "":
			all[paramSequenceID] = s.Name
		default:
			all[paramSequenceID] = s.ID
		}
		all[paramSequenceStart], all[paramSequenceEnd] = s.Start, s.End
	}
	if q.Priority != 0 {
		all[paramPriority] = q.Priority
	}
	if q.Timeout > 0 {
		all[paramTimeout] = max(q.Timeout.Microseconds(), 1)
	}
	if q.EmptyFinal {
		all[paramEmptyFinal] = true
	}
	return all, nil
}

// parameter returns a value as bool, string, int64, uint64 or float64.
func parameter(value any) (any, error) {
	switch x := value.(type) {
	case bool, string, int64, uint64, float64:
		return x, nil
	case int:
		return int64(x), nil
	case int32:
		return int64(x), nil
	case uint32:
		return int64(x), nil
	case uint:
		return uint64(x), nil
	case float32:
		return float64(x), nil
	case json.Number:
		return number(string(x))
	case json.RawMessage:
		var any any
		if err := json.Unmarshal(x, &any); err != nil {
			return nil, err
		}
		if _, ok := any.(float64); ok {
			return number(string(x))
		}
		if any == nil {
			break
		}
		return parameter(any)
	}
	return nil, fmt.Errorf("expected a string, number or boolean, got %T", value)
}

func number(text string) (any, error) {
	n := json.Number(text)
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	return n.Float64()
}

// Input is a tensor of a request: its bytes, or its elements as JSON. Tensor makes
// one of Go's values.
type Input struct {
	Name     string
	Datatype tensor.Datatype
	// Shape includes the batch dimension of a model that batches.
	Shape tensor.Shape
	// Data holds the elements, little-endian, row-major; BYTES elements each
	// behind their length as uint32. See Memory above for how long it is used.
	Data []byte
	// JSON holds the elements as a JSON array, nested or flat, instead of Data. Over
	// gRPC the client makes Data of it.
	JSON json.RawMessage
	// Region is where the elements lie, in the form of Data, instead of Data.
	Region *Region

	fault error // of the Tensor that it was made of
}

// bytes returns the elements of an input that is not in shared memory.
func (in *Input) bytes() ([]byte, error) {
	if in.JSON == nil {
		return in.Data, nil
	}
	n, err := in.Shape.Elements()
	if err == nil {
		var data []byte
		if data, err = elements.Parse(in.Datatype, in.JSON, n); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("input %q: %w", in.Name, err)
}

// Response is the answer to a request.
type Response struct {
	Model, Version, ID string
	Outputs            []Output
	Parameters         map[string]any
	// Final says that a stream has no further response to the request. Of a request
	// without EmptyFinal it may be that no response is.
	Final bool
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

// Infer sends a request and returns its answer; tensors travel as bytes.
func (c *Client) Infer(ctx context.Context, q *Request) (*Response, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	k := stateless
	if q.Sequence != nil || q.Parameters[paramSequenceID] != nil {
		k = unsentOnly
	}
	return call(ctx, c, k, func(t transport, ctx context.Context) (*Response, error) { return t.infer(ctx, q) })
}

func (q *Request) check() error {
	for i := range q.Inputs {
		if in := &q.Inputs[i]; in.fault != nil {
			return in.fault
		}
	}
	for name, n := range q.Classes {
		if _, both := q.OutputRegions[name]; both || n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("output %q: %d classes: expected at least 1, and no region", name, n)
		}
	}
	return nil
}

// checkOutput holds what a server says of an output against the bytes that it sent.
func checkOutput(o *Output) error {
	n, err := o.Shape.Elements()
	if err != nil {
		return fmt.Errorf("output %q: shape %s: %w", o.Name, o.Shape, err)
	}
	size, err := tensor.ByteSize(o.Datatype, o.Shape)
	if err != nil {
		return fmt.Errorf("output %q: shape %s: %w", o.Name, o.Shape, err)
	}
	if o.Datatype == tensor.Bytes {
		count, err := tensor.CountBytes(o.Data)
		if err == nil && int64(count) != n {
			err = fmt.Errorf("expected %d elements for shape %s, got %d", n, o.Shape, count)
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		return nil
	}
	if size != int64(len(o.Data)) {
		return fmt.Errorf("output %q: expected %d bytes for %s of shape %s, got %d", o.Name, size, o.Datatype, o.Shape, len(o.Data))
	}
	return nil
}
