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

// stream asks a decoupled model and prints each response as it comes.
func (f *inferFlags) stream(ctx context.Context, out io.Writer, c *client.Client, q *client.Request, meta *client.Metadata) error {
	if len(f.save) > 0 {
		return errors.New("--save: a stream of responses is not saved; --json prints each on a line")
	}
	fields := map[string]any{}
	maps.Copy(fields, q.Parameters)
	if q.ID != "" {
		fields["id"] = q.ID
	}
	for i := range q.Inputs {
		in := &q.Inputs[i]
		k := slices.IndexFunc(meta.Inputs, func(m client.TensorMetadata) bool { return m.Name == in.Name })
		flat, err := flatElements(in)
		if err != nil {
			return fmt.Errorf("--input %s: %w", in.Name, err)
		}
		if shape := streamShape(meta.Inputs[k].Shape, len(flat)); !shape.Equal(in.Shape) {
			return fmt.Errorf("--input %s: the model streams, and takes %d elements over HTTP as %s, not as %s", in.Name, len(flat), shape, in.Shape)
		}
		fields[in.Name] = flat
	}
	n := 0
	return c.GenerateStream(ctx, q.Model, q.Version, fields, func(response json.RawMessage) error {
		b := append([]byte(nil), response...)
		if !f.asJSON {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(response, &members); err != nil {
				return err
			}
			b = fmt.Appendf(b[:0], "response %d\n", n)
			for _, o := range meta.Outputs {
				if value := members[o.Name]; value != nil && (len(q.Outputs) == 0 || slices.Contains(q.Outputs, o.Name)) {
					b = fmt.Appendf(b, "%s %s\n%s\n", o.Name, o.Datatype, value)
				}
			}
			b = b[:len(b)-1]
		}
		n++
		_, err := out.Write(append(b, '\n'))
		return err
	})
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
