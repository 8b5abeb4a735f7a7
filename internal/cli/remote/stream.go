package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// isDecoupled reports whether the server has refused a request because its
// model answers with streams.
func isDecoupled(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && strings.Contains(refused.Message, "decoupled transaction policy")
}

// stream asks a decoupled model, one sample of a batch after the other, and prints
// each response as it comes.
func (f *inferFlags) stream(ctx context.Context, out io.Writer, c *client.Client, q *client.Request, meta *client.Metadata) error {
	if len(f.save) > 0 {
		return errors.New("--save: a stream of responses is not saved; --json prints each on a line")
	}
	samples, err := splitSamples(ctx, c, q, meta)
	if err != nil {
		return err
	}
	var failed []error
	for i, fields := range samples {
		maps.Copy(fields, q.Parameters)
		if q.ID != "" {
			fields["id"] = q.ID
		}
		label := "response"
		if len(samples) > 1 {
			label = fmt.Sprintf("sample %d response", i)
		}
		n := 0
		err := c.GenerateStream(ctx, q.Model, q.Version, fields, func(response json.RawMessage) error {
			b, err := f.appendStreamed(nil, response, fmt.Sprintf("%s %d\n", label, n), q, meta)
			if err != nil {
				return err
			}
			n++
			_, err = out.Write(append(b, '\n'))
			return err
		})
		if err != nil && len(samples) > 1 {
			err = fmt.Errorf("sample %d: %w", i, err)
		}
		if _, refused := errors.AsType[*client.Error](err); err != nil && !refused {
			return errors.Join(append(failed, err)...)
		}
		if err != nil { // of this sample alone
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// appendStreamed appends a response of a stream without its last line end.
func (f *inferFlags) appendStreamed(b []byte, response json.RawMessage, title string, q *client.Request, meta *client.Metadata) ([]byte,
	error,
) {
	if f.asJSON {
		return append(b, response...), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(response, &members); err != nil {
		return nil, err
	}
	b = append(b, title...)
	for _, o := range meta.Outputs {
		if value := members[o.Name]; value != nil && (len(q.Outputs) == 0 || slices.Contains(q.Outputs, o.Name)) {
			b = fmt.Appendf(b, "%s %s\n%s\n", o.Name, o.Datatype, value)
		}
	}
	return b[:len(b)-1], nil
}

// splitSamples returns the inputs of each sample of a request, as generate_stream
// takes them: of a model that batches each element of the first dimension is one.
func splitSamples(ctx context.Context, c *client.Client, q *client.Request, meta *client.Metadata) ([]map[string]any, error) {
	count := 1
	if first := &q.Inputs[0]; len(first.Shape) > 0 && first.Shape[0] > 1 {
		batches, err := batching(ctx, c, q)
		if err != nil {
			return nil, err
		}
		if batches {
			count = int(first.Shape[0])
		}
	}
	samples := make([]map[string]any, 0, count)
	for i := range q.Inputs {
		in := &q.Inputs[i]
		flat, err := flatElements(in)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", in.Name, err)
		}
		shape := slices.Clone(in.Shape)
		if count > 1 {
			if len(shape) == 0 || shape[0] != int64(count) || len(flat)%count != 0 {
				return nil, fmt.Errorf("--input %s: expected %d samples, as input %s has, got shape %s with %d elements", in.Name, count,
					q.Inputs[0].Name, in.Shape, len(flat))
			}
			shape[0] = 1
		}
		k := slices.IndexFunc(meta.Inputs, func(m client.TensorMetadata) bool { return m.Name == in.Name })
		each := len(flat) / count
		if server := streamShape(meta.Inputs[k].Shape, each); !server.Equal(shape) {
			return nil, fmt.Errorf("--input %s: the model streams, and takes %d elements over HTTP as %s, not as %s", in.Name, each, server, shape)
		}
		for n := range count {
			if i == 0 {
				samples = append(samples, map[string]any{})
			}
			samples[n][in.Name] = flat[n*each : (n+1)*each]
		}
	}
	return samples, nil
}

// batching reports whether the first dimension of a model's tensors is that of
// the batch.
func batching(ctx context.Context, c *client.Client, q *client.Request) (bool, error) {
	text, err := c.ModelConfig(ctx, q.Model, q.Version)
	if err != nil {
		return false, err
	}
	var config struct {
		MaxBatchSize int `json:"max_batch_size"`
	}
	err = json.Unmarshal(text, &config)
	return config.MaxBatchSize > 0, err
}

// flatElements returns the elements of an input, without the lists in which
// they stand.
func flatElements(in *client.Input) ([]json.RawMessage, error) {
	text := []byte(in.JSON)
	if in.JSON == nil {
		o := client.Output{Datatype: in.Datatype, Shape: in.Shape, Data: in.Data}
		b, _ := appendElements([]byte("["), &o, math.MaxInt, func(b []byte, i int) []byte {
			if i > 0 {
				b = append(b, ',')
			}
			return b
		})
		text = append(b, ']')
	}
	var flat []json.RawMessage
	var flatten func(text []byte) error
	flatten = func(text []byte) error {
		if len(text) == 0 || text[0] != '[' {
			flat = append(flat, text)
			return nil
		}
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for _, e := range list {
			if err := flatten(e); err != nil {
				return err
			}
		}
		return nil
	}
	err := flatten(text)
	if flat == nil {
		flat = []json.RawMessage{}
	}
	return flat, err
}

// streamShape returns the shape that the server gives to n elements: of the
// open dimensions the last takes what is left, the others are 1.
func streamShape(model []int64, n int) tensor.Shape {
	shape := slices.Clone(tensor.Shape(model))
	left, open := int64(n), -1
	for i, d := range slices.Backward(shape) {
		switch {
		case d > 0:
			left /= d
		case d < 0 && open < 0:
			open = i
		case d < 0:
			shape[i] = 1
		}
	}
	if open >= 0 {
		shape[open] = left
	}
	return shape
}
