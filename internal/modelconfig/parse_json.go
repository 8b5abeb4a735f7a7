package modelconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// ParseJSON reads a configuration in the JSON form: a load override, or what a
// backend completed. The rules are those of protobuf's JSON (either spelling
// of field names, 64-bit numbers as numbers or texts), with names of enum
// values in any case; unknown fields are refused. The filename is used in
// faults and may be empty.
func ParseJSON(data []byte, filename string) (*Draft, error) {
	if len(data) > MaxSize {
		return nil, tooLarge(filename, len(data))
	}
	tree, err := decodeTree(data)
	if err != nil {
		return nil, Faults{jsonFault(data, filename, err)}
	}
	pb := &inferencepb.ModelConfig{}
	c := jsonChecker{file: filename}
	tree = c.message(tree, pb.ProtoReflect().Descriptor(), "")
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	plain, err := json.Marshal(tree)
	if err != nil {
		return nil, Faults{jsonFault(data, filename, err)}
	}
	if err := protojson.Unmarshal(plain, pb); err != nil {
		f := translate(err, filename)
		f.Line, f.Column = 0, 0 // of the rewritten text, not of the user's
		return nil, Faults{f}
	}
	return &Draft{pb: pb, file: filename}, nil
}

// decodeTree decodes JSON with its numbers untouched.
func decodeTree(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF { //nolint:errorlint // documented to be io.EOF itself
		return nil, fmt.Errorf("more text after the end of the configuration")
	}
	return tree, nil
}

func jsonFault(data []byte, filename string, err error) Fault {
	f := Fault{File: filename, Expected: "a JSON object", Found: err.Error()}
	if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // never wrapped
		before := data[:min(len(data), int(max(0, syntax.Offset-1)))]
		f.Line = bytes.Count(before, []byte{'\n'}) + 1
		f.Column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	var fs Faults
	fs.add(f)
	return fs[0]
}

// jsonChecker walks decoded JSON along the schema, to find every unknown field
// and enum value at once and to bring enum names into their own spelling.
type jsonChecker struct {
	file   string
	faults Faults
}

func (c *jsonChecker) fault(path, expected, found, hint string) {
	c.faults.add(Fault{File: c.file, Path: path, Expected: expected, Found: found, Hint: hint})
}

func (c *jsonChecker) message(v any, md protoreflect.MessageDescriptor, path string) any {
	object, ok := v.(map[string]any)
	if !ok {
		if v != nil || path == "" {
			c.fault(path, "an object", describeJSON(v), "")
		}
		return v
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if len(c.faults) >= maxFaults {
			break
		}
		if fd == nil {
			in := "the model configuration"
			if path != "" {
				in = string(md.Name())
			}
			c.fault(at, "a field of "+in, "unknown field "+quote(name), suggestField(name, md))
			continue
		}
		object[name] = c.field(object[name], fd, at)
	}
	return object
}

func (c *jsonChecker) field(v any, fd protoreflect.FieldDescriptor, path string) any {
	switch {
	case v == nil: // null is the default, for every type
	case fd.IsMap():
		entries, ok := v.(map[string]any)
		if !ok {
			c.fault(path, "an object", describeJSON(v), "")
			return v
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			entries[key] = c.value(entries[key], fd.MapValue(), mapPath(path, key))
		}
	case fd.IsList():
		list, ok := v.([]any)
		if !ok {
			c.fault(path, "a list", describeJSON(v), "")
			return v
		}
		for i := range list {
			list[i] = c.value(list[i], fd, path+"["+strconv.Itoa(i)+"]")
		}
	default:
		return c.value(v, fd, path)
	}
	return v
}

func (c *jsonChecker) value(v any, fd protoreflect.FieldDescriptor, path string) any {
	ok := true
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return c.message(v, fd.Message(), path)
	case protoreflect.EnumKind:
		return c.enum(v, fd, path)
	case protoreflect.StringKind:
		_, ok = v.(string)
	case protoreflect.BoolKind:
		_, ok = v.(bool)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		switch v.(type) {
		case json.Number, string:
		default:
			ok = false
		}
	default:
		ok = c.integer(v, fd.Kind())
	}
	if !ok {
		c.fault(path, describeField(fd), describeJSON(v), "")
	}
	return v
}

// integer accepts what protobuf's JSON accepts: 3, "3", and 3.0, which is left
// to protojson.
func (c *jsonChecker) integer(v any, kind protoreflect.Kind) bool {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return false
	}
	if strings.ContainsAny(text, ".eE") {
		return true
	}
	ok, _ := isInteger(kind, token{kind: tokenNumber, text: text})
	return ok
}

func (c *jsonChecker) enum(v any, fd protoreflect.FieldDescriptor, path string) any {
	values := fd.Enum().Values()
	switch v := v.(type) {
	case string:
		if values.ByName(protoreflect.Name(v)) != nil {
			return v
		}
		if upper := strings.ToUpper(v); values.ByName(protoreflect.Name(upper)) != nil {
			return upper
		}
		c.fault(path, describeField(fd), quote(v), suggestEnum(v, fd.Enum()))
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 32)
		if err != nil || values.ByNumber(protoreflect.EnumNumber(n)) == nil {
			c.fault(path, describeField(fd), v.String(), "")
		}
	default:
		c.fault(path, describeField(fd), describeJSON(v), "")
	}
	return v
}

func describeJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		return quote(v)
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
