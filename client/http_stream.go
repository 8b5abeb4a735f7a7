package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nesoserve/neso/internal/elements"
	"github.com/nesoserve/neso/tensor"
)

// stream is generate_stream with tensors: inputs become flat lists, and what comes
// is read by the model's metadata.
func (h *overHTTP) stream(ctx context.Context, q *Request, yield func(*Response, error) bool) error {
	meta, err := read[Metadata](h.modelMetadata(ctx, q.Model, q.Version))
	if err != nil {
		return err
	}
	fields, err := q.fields(meta)
	if err != nil {
		return err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	path := withQuery(modelPath(q.Model, q.Version)+"/generate_stream", q.Query)
	err = h.generateStream(ctx, kindOf(fields), path, q.Header, body, func(event json.RawMessage, fault *Error) error {
		var r *Response
		if fault == nil {
			if r, err = meta.response(event, q); err != nil {
				return err
			}
			if !yield(r, nil) {
				return errLeft
			}
		} else if !yield(nil, fault) {
			return errLeft
		}
		return nil
	})
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// fields are those of generate_stream.
func (q *Request) fields(meta *Metadata) (map[string]any, error) {
	if len(q.OutputRegions) > 0 || len(q.Classes) > 0 {
		return nil, errors.New("streams over HTTP have neither outputs in shared memory nor classes")
	}
	fields, err := q.parameters()
	if err != nil {
		return nil, err
	}
	if fields == nil {
		fields = map[string]any{}
	}
	if q.ID != "" {
		fields["id"] = q.ID
	}
	for i := range q.Inputs {
		in := &q.Inputs[i]
		if in.Region != nil {
			return nil, fmt.Errorf("input %q: streams over HTTP have no inputs in shared memory", in.Name)
		}
		data, err := in.bytes()
		if err != nil {
			return nil, err
		}
		list, err := elements.Append(nil, in.Datatype, data)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		if err := meta.fits(in); err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		fields[in.Name] = json.RawMessage(list)
	}
	return fields, nil
}

// fits checks the shape of an input against the one that the server makes of a flat
// list. What the model does not know, the server refuses.
func (m *Metadata) fits(in *Input) error {
	k := slices.IndexFunc(m.Inputs, func(t TensorMetadata) bool { return t.Name == in.Name })
	if k < 0 {
		return nil
	}
	n, err := in.Shape.Elements()
	if err != nil {
		return err
	}
	if server := filled(m.Inputs[k].Shape, n); !server.Equal(in.Shape) {
		return fmt.Errorf("a stream over HTTP takes %d elements as %s, not as %s", n, server, in.Shape)
	}
	return nil
}

// response reads an event of generate_stream.
func (m *Metadata) response(event json.RawMessage, q *Request) (*Response, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(event, &members); err != nil {
		return nil, fmt.Errorf("an event: %w", err)
	}
	r := &Response{Parameters: map[string]any{}}
	for name, into := range map[string]*string{"model_name": &r.Model, "model_version": &r.Version, "id": &r.ID} {
		if text := members[name]; text != nil && json.Unmarshal(text, into) == nil {
			delete(members, name)
		}
	}
	for _, meta := range m.Outputs {
		text := members[meta.Name]
		if text == nil || len(q.Outputs) > 0 && !slices.Contains(q.Outputs, meta.Name) {
			continue
		}
		delete(members, meta.Name)
		o, err := meta.output(text)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", meta.Name, err)
		}
		r.Outputs = append(r.Outputs, *o)
	}
	for name, text := range members {
		if slices.ContainsFunc(m.Outputs, func(o TensorMetadata) bool { return o.Name == name }) {
			continue
		}
		if value, err := parameter(text); err == nil {
			r.Parameters[name] = value
		}
	}
	return r, nil
}

// output makes a tensor of a flat list, or of a scalar.
func (m *TensorMetadata) output(text json.RawMessage) (*Output, error) {
	d, err := tensor.ParseDatatype(m.Datatype)
	if err != nil {
		return nil, err
	}
	count := int64(1)
	if bytes.HasPrefix(text, []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		count = int64(len(list))
	}
	data, err := elements.Parse(d, text, count)
	if err != nil {
		return nil, err
	}
	return &Output{Name: m.Name, Datatype: d, Shape: filled(m.Shape, count), Data: data}, nil
}

// filled is a shape of so many elements: of the dimensions that are open the last
// takes what is left, and the others are 1. A shape that does not fit is flat.
func filled(shape []int64, count int64) tensor.Shape {
	s := slices.Clone(tensor.Shape(shape))
	left, open := count, -1
	for i, d := range slices.Backward(s) {
		switch {
		case d > 0:
			left /= d
		case d < 0 && open < 0:
			open = i
		case d < 0:
			s[i] = 1
		}
	}
	if open >= 0 {
		s[open] = left
	}
	if n, err := s.Elements(); err != nil || n != count {
		return tensor.Shape{count}
	}
	return s
}
