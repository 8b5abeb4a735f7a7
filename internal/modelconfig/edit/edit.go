// Package edit owns changes of a config.pbtxt that leave the rest of it as its
// author wrote it: comments, order, blanks. Open edit.go first, then scan.go.
package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/encode"
	"github.com/nesoserve/neso/internal/modelconfig/read"
)

// InstanceCount is the field that stands for the count of every instance group; of
// one of its own if the configuration has none.
const InstanceCount = "instance_group.count"

// ParameterPrefix stands before the key of a parameter, whose value is a text.
const ParameterPrefix = "parameters."

// Change is another value of a field: of one of the configuration ("max_batch_size"),
// of one within it ("dynamic_batching.max_queue_delay_microseconds"), of a parameter
// ("parameters.KEY"), or InstanceCount. The value is JSON; null takes the field away.
type Change struct {
	Field string          `json:"field"`
	Value json.RawMessage `json:"value"`
}

func (c Change) String() string { return c.Field + "=" + string(c.Value) }

// Text returns the configuration with the changes. The file's name stands in faults.
func Text(text []byte, filename string, changes []Change) ([]byte, error) {
	was := &inferencepb.ModelConfig{}
	if _, faults := read.Text(text, filename, was.ProtoReflect()); len(faults) > 0 {
		return nil, faults.Err()
	}
	will := proto.CloneOf(was)
	for _, c := range changes {
		if err := apply(will, c); err != nil {
			return nil, err
		}
	}
	edited := splice(text, was.ProtoReflect(), will.ProtoReflect())
	got := &inferencepb.ModelConfig{}
	if _, faults := read.Text(edited, filename, got.ProtoReflect()); len(faults) > 0 || !proto.Equal(got, will) {
		return encode.AppendText(nil, will.ProtoReflect(), ""), nil // written in a way that splice does not see through
	}
	return edited, nil
}

func apply(to *inferencepb.ModelConfig, c Change) error {
	null := string(bytes.TrimSpace(c.Value)) == "null"
	if key, ok := strings.CutPrefix(c.Field, ParameterPrefix); ok {
		if null {
			delete(to.Parameters, key)
			return nil
		}
		var text string
		if err := json.Unmarshal(c.Value, &text); err != nil {
			return fmt.Errorf("%s: expected a text in quotation marks, found %s", c.Field, c.Value)
		}
		if to.Parameters == nil {
			to.Parameters = map[string]*inferencepb.ModelParameter{}
		}
		to.Parameters[key] = &inferencepb.ModelParameter{StringValue: text}
		return nil
	}
	if c.Field == InstanceCount {
		var n int32
		if err := json.Unmarshal(c.Value, &n); err != nil || n < 1 {
			return fmt.Errorf("%s: expected a number from 1 on, found %s", c.Field, c.Value)
		}
		if len(to.InstanceGroup) == 0 {
			to.InstanceGroup = []*inferencepb.ModelInstanceGroup{{}}
		}
		for _, g := range to.InstanceGroup {
			g.Count = n
		}
		return nil
	}
	path := strings.Split(c.Field, ".")
	if null {
		return remove(to.ProtoReflect(), path)
	}
	from, err := parsed(path, c)
	if err != nil {
		return err
	}
	move(to.ProtoReflect(), from.ProtoReflect(), path)
	return nil
}

// parsed is a configuration that has nothing but the value.
func parsed(path []string, c Change) (*inferencepb.ModelConfig, error) {
	nested := c.Value
	for _, name := range slices.Backward(path) {
		var err error
		if nested, err = json.Marshal(map[string]json.RawMessage{name: nested}); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Field, err)
		}
	}
	pb := &inferencepb.ModelConfig{}
	if _, faults := read.JSON(nested, "", pb.ProtoReflect()); len(faults) > 0 {
		return nil, fmt.Errorf("%s: %w", c.Field, faults.Err())
	}
	return pb, nil
}

func remove(m protoreflect.Message, path []string) error {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case fd == nil:
		return fmt.Errorf("a configuration has no field %q", path[0])
	case len(path) == 1:
		m.Clear(fd)
		return nil
	case fd.Message() == nil || fd.IsList() || fd.IsMap():
		return fmt.Errorf("the field %q has no fields of its own", path[0])
	case !m.Has(fd):
		return nil
	}
	return remove(m.Mutable(fd).Message(), path[1:])
}

// move takes a value from one message into another, where path leads through
// messages alone: read.JSON has refused all else.
func move(to, from protoreflect.Message, path []string) {
	fd := to.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case fd == nil: // the other spelling of a name, as JSON may have it
		fd = to.Descriptor().Fields().ByJSONName(path[0])
		fallthrough
	case len(path) == 1 || fd.IsList() || fd.IsMap():
		if !from.Has(fd) {
			to.Clear(fd)
			return
		}
		to.Set(fd, from.Get(fd))
	default:
		move(to.Mutable(fd).Message(), from.Get(fd).Message(), path[1:])
	}
}

// splice writes the fields that differ in place of those that stand in the text, or
// behind all others.
func splice(text []byte, was, will protoreflect.Message) []byte {
	spans := scan(text)
	fields := will.Descriptor().Fields()
	replaced := map[string]string{}
	var added []byte
	for i := range fields.Len() {
		fd := fields.Get(i)
		if was.Has(fd) == will.Has(fd) && was.Get(fd).Equal(will.Get(fd)) {
			continue
		}
		name := string(fd.Name())
		alone := will.New()
		if will.Has(fd) {
			alone.Set(fd, will.Get(fd))
		}
		written := encode.AppendText(nil, alone, "")
		if slices.ContainsFunc(spans, func(s span) bool { return s.name == name }) {
			replaced[name] = string(bytes.TrimSuffix(written, []byte("\n")))
		} else {
			added = append(added, written...)
		}
	}
	var out []byte
	at := 0
	for _, s := range spans {
		value, ok := replaced[s.name]
		if !ok {
			continue
		}
		out = append(out, text[at:s.start]...)
		at = s.end
		if value == "" { // the line, if nothing else stands on it
			at = restOfLine(text, out, at)
		}
		out = append(out, value...)
		replaced[s.name] = "" // what else has this name goes
	}
	out = append(out, text[at:]...)
	if len(added) > 0 && len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, added...)
}

// restOfLine returns where text goes on behind what has been removed: on the next line
// if out ends with one and nothing but blanks is left of this one.
func restOfLine(text, out []byte, at int) int {
	if len(out) > 0 && out[len(out)-1] != '\n' {
		return at
	}
	for i := at; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r':
		case '\n':
			return i + 1
		default:
			return at
		}
	}
	return len(text)
}
