package data

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/tensor"
)

// read reads a directory or a file.
func read(path string, o *Options) ([][]Step, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		step, err := directory(path, o)
		return [][]Step{{step}}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Data     []json.RawMessage `json:"data"`
		Expected []json.RawMessage `json:"validation_data"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, inWords(text, err)
	}
	if len(file.Data) == 0 {
		return nil, errors.New("The json file doesn't contain data field") //nolint:staticcheck // the peer's text
	}
	if len(file.Expected) > 0 && len(file.Expected) != len(file.Data) {
		return nil, fmt.Errorf("the 'validation_data' field doesn't align with 'data' field in the json file: %d and %d entries",
			len(file.Expected), len(file.Data))
	}
	return streams(file.Data, file.Expected, o)
}

// inWords says what is wrong with the JSON of a file: in which line, or what stands where
// something else was expected.
func inWords(text []byte, err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		line, kind := 1+bytes.Count(text[:min(int(e.Offset), len(text))], []byte("\n")), strings.Fields(e.Value)[0]
		if e.Field == "" {
			return fmt.Errorf("line %d: expected an object with the field 'data', found JSON of the kind %s", line, kind)
		}
		return fmt.Errorf("line %d: the field '%s' cannot be of the kind %s", line, e.Field, kind)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:min(int(e.Offset), len(text))], []byte("\n")), err)
	}
	return err
}

// found is the kind of a JSON value that is not what was expected.
func found(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return strings.Fields(e.Value)[0]
	}
	return err.Error()
}

// streams reads the list of steps, each of which may be a list itself: a stream.
func streams(list, expected []json.RawMessage, o *Options) ([][]Step, error) {
	var all [][]Step
	var flat []Step
	for i, raw := range list {
		wanted := json.RawMessage(nil)
		if len(expected) > 0 {
			wanted = expected[i]
		}
		where := fmt.Sprintf("data[%d]", i)
		if raw[0] != '[' {
			step, err := readStep(raw, wanted, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			flat = append(flat, step)
			continue
		}
		var steps, wants []json.RawMessage
		if err := json.Unmarshal(raw, &steps); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if wanted != nil {
			if err := json.Unmarshal(wanted, &wants); err != nil || len(wants) != len(steps) {
				return nil, fmt.Errorf("%s: the 'validation_data' field doesn't align with 'data' field in the json file", where)
			}
		}
		stream := make([]Step, len(steps))
		for k := range steps {
			want := json.RawMessage(nil)
			if wants != nil {
				want = wants[k]
			}
			var err error
			if stream[k], err = readStep(steps[k], want, o); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", where, k, err)
			}
		}
		all = append(all, stream)
	}
	if len(flat) > 0 {
		all = append(all, flat)
	}
	return all, nil
}

// readStep reads one request: an object from names to tensors.
func readStep(raw, expected json.RawMessage, o *Options) (s Step, err error) {
	var tensors map[string]json.RawMessage
	if err := json.Unmarshal(raw, &tensors); err != nil {
		return s, fmt.Errorf("expected an object with the model's inputs, found %s", found(err))
	}
	if o.Scheduled {
		if s.At, err = timestamp(tensors[timestampField]); err != nil {
			return s, err
		}
		delete(tensors, timestampField)
	}
	for name := range tensors {
		if !slices.ContainsFunc(o.Inputs, func(in Input) bool { return in.Name == name }) {
			return s, fmt.Errorf("The input or output '%s' is not found in the model configuration", name) //nolint:staticcheck // the peer's text
		}
	}
	for _, in := range o.Inputs {
		text, ok := tensors[in.Name]
		if !ok {
			if in.Optional {
				continue
			}
			return s, fmt.Errorf("missing tensor %s", in.Name)
		}
		t, err := readTensor(text, in)
		if err != nil {
			return s, err
		}
		s.Inputs = append(s.Inputs, t)
	}
	if expected == nil {
		return s, nil
	}
	var outputs map[string]json.RawMessage
	if err := json.Unmarshal(expected, &outputs); err != nil {
		return s, fmt.Errorf("expected an object with the model's outputs, found %s", found(err))
	}
	for _, out := range o.Outputs {
		text, ok := outputs[out.Name]
		if !ok {
			continue
		}
		delete(outputs, out.Name)
		t, err := readTensor(text, out)
		if err != nil {
			return s, err
		}
		s.Expected = append(s.Expected, t)
	}
	for name := range outputs {
		return s, fmt.Errorf("The input or output '%s' is not found in the model configuration", name) //nolint:staticcheck // the peer's text
	}
	return s, nil
}

// timestampField says when a request of a schedule is due.
const timestampField = "timestamp"

// latest bounds when a request may be due, in milliseconds.
const latest = 1 << 40

// timestamp reads milliseconds: a number, or one in a list.
func timestamp(raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, fmt.Errorf("missing '%s': expected the milliseconds from the begin of the run on", timestampField)
	}
	var list []float64
	if json.Unmarshal(raw, &list) != nil {
		list = make([]float64, 1)
		if json.Unmarshal(raw, &list[0]) != nil {
			list = nil
		}
	}
	if len(list) != 1 || list[0] < 0 || list[0] > latest {
		return 0, fmt.Errorf("'%s': expected a number of milliseconds from 0 on, found %.40s", timestampField, raw)
	}
	return time.Duration(list[0] * float64(time.Millisecond)), nil
}

// readTensor reads elements, nested or flat, {"b64": ...}, or {"content": ..., "shape": [...]}.
func readTensor(raw json.RawMessage, in Input) (Tensor, error) {
	t := Tensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape}
	var object struct {
		Base64  *string         `json:"b64"`
		Content json.RawMessage `json:"content"`
		Shape   tensor.Shape    `json:"shape"`
	}
	content := raw
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &object); err != nil {
			if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				err = fmt.Errorf("the field '%s' cannot be of the kind %s", e.Field, found(err))
			}
			return t, fmt.Errorf("input '%s': %w", in.Name, err)
		}
		if object.Base64 == nil && object.Content == nil {
			return t, fmt.Errorf("missing content field. ( Location tensor %s)", in.Name)
		}
		if object.Content != nil {
			content = object.Content
		}
		if object.Shape != nil {
			t.Shape = object.Shape
			if !t.Shape.Matches(in.Shape) {
				return t, fmt.Errorf("input '%s' has the shape %v, which %v does not match", in.Name, in.Shape, t.Shape)
			}
		}
	}
	var err error
	if t.Bytes, err = readContent(content, in.Datatype); err != nil {
		return t, fmt.Errorf("input '%s': %w", in.Name, err)
	}
	return t, fit(&t)
}

// readContent turns elements, or base64 of them, into the protocol's bytes.
func readContent(raw json.RawMessage, d tensor.Datatype) ([]byte, error) {
	var object struct {
		Base64 *string `json:"b64"`
	}
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &object); err != nil || object.Base64 == nil {
			return nil, errors.New(`expected elements or {"b64": TEXT}`)
		}
		b, err := base64.StdEncoding.DecodeString(*object.Base64)
		if err != nil {
			return nil, err
		}
		if d == tensor.Bytes {
			return tensor.AppendElement(nil, b), nil
		}
		return b, nil
	}
	if raw[0] != '[' && d == tensor.Bytes && raw[0] != '"' { // text that is not written as a text
		return tensor.AppendElement(nil, string(raw)), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return appendValue(nil, value, d)
}

// fit checks that t has as many elements as its shape, which it completes where one
// size alone is open.
func fit(t *Tensor) error {
	var n int
	switch size := t.Datatype.Size(); {
	case t.Datatype == tensor.Bytes:
		var err error
		if n, err = tensor.CountBytes(t.Bytes); err != nil {
			return err
		}
	case len(t.Bytes)%size != 0:
		return fmt.Errorf("input '%s': %d bytes are no whole number of %v elements", t.Name, len(t.Bytes), t.Datatype)
	default:
		n = len(t.Bytes) / size
	}
	open, rest := -1, 1
	for i, d := range t.Shape {
		switch {
		case d >= 0:
			rest *= int(d)
		case open >= 0:
			return &openError{t.Name}
		default:
			open = i
		}
	}
	if open >= 0 && rest > 0 && n%rest == 0 {
		t.Shape = slices.Clone(t.Shape)
		t.Shape[open] = int64(n / rest)
		return nil
	}
	if open >= 0 || n != rest {
		return fmt.Errorf("mismatch in the data provided for '%s': its shape %v has %d elements, got %d", t.Name, t.Shape, rest, n)
	}
	return nil
}

// directory reads a file for each input, named as it: raw bytes, or of strings one a line.
func directory(path string, o *Options) (s Step, err error) {
	for _, in := range o.Inputs {
		b, err := os.ReadFile(filepath.Join(path, in.Name))
		if errors.Is(err, os.ErrNotExist) && in.Optional {
			continue
		}
		if err != nil {
			return s, err
		}
		t := Tensor{Name: in.Name, Datatype: in.Datatype, Shape: in.Shape, Bytes: b}
		if in.Datatype == tensor.Bytes {
			t.Bytes = nil
			for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
				t.Bytes = tensor.AppendElement(t.Bytes, line)
			}
		}
		if err := fit(&t); err != nil {
			return s, err
		}
		s.Inputs = append(s.Inputs, t)
	}
	return s, nil
}

// ReadBodies reads the requests of a protocol that is not KServe's: the first
// element of "payload" in each entry, or the entry itself.
func ReadBodies(paths []string, scheduled bool) (*Set, error) {
	set := &Set{Streams: [][]Step{nil}, Given: true}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var file struct {
			Data []struct {
				Payload   []json.RawMessage `json:"payload"`
				Timestamp json.RawMessage   `json:"timestamp"`
			} `json:"data"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("failed to read the input data %s: %w", path, inWords(text, err))
		}
		for i, e := range file.Data {
			if len(e.Payload) == 0 {
				return nil, fmt.Errorf("%s: data[%d] has no 'payload'", path, i)
			}
			body := e.Payload[0]
			var quoted string
			if json.Unmarshal(body, &quoted) == nil {
				body = json.RawMessage(quoted)
			}
			step := Step{Body: body}
			if scheduled {
				if step.At, err = timestamp(e.Timestamp); err != nil {
					return nil, fmt.Errorf("%s: data[%d]: %w", path, i, err)
				}
			}
			set.Streams[0] = append(set.Streams[0], step)
		}
	}
	if len(set.Streams[0]) == 0 {
		return nil, errors.New("the input data holds no request")
	}
	return set, nil
}
