package modelconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
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
// faults and may be empty. As with [Parse], a draft may come with the faults.
func ParseJSON(data []byte, filename string) (*Draft, error) {
	if len(data) > MaxSize {
		return nil, tooLarge(filename, len(data))
	}
	tree, err := decodeTree(data)
	if err != nil {
		return nil, Faults{jsonFault(data, filename, err)}
	}
	pb := &inferencepb.ModelConfig{}
	c := jsonChecker{file: filename, gaps: newGaps()}
	tree = c.message(tree, pb.ProtoReflect().Descriptor(), "")
	if _, ok := tree.(map[string]any); !ok || len(c.faults) >= maxFaults { // nothing or not all was looked at
		return nil, c.faults
	}
	plain, err := json.Marshal(tree)
	if err != nil {
		return nil, Faults{jsonFault(data, filename, err)}
	}
	if err := protojson.Unmarshal(plain, pb); err != nil {
		f := translate(err, filename)
		f.Line, f.Column = 0, 0 // of the rewritten text, not of the user's
		c.faults.add(f)
		return nil, c.faults
	}
	d := &Draft{pb: pb, file: filename}
	if len(c.faults) == 0 {
		return d, nil
	}
	d.gaps = c.gaps
	return d, c.faults
}

// decodeTree decodes JSON with its numbers untouched.
func decodeTree(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
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
// and enum value at once and to bring enum names into their own spelling. What
// is faulty it takes out of the tree, so that the rest can be read.
type jsonChecker struct {
	file   string
	faults Faults
	gaps   *gaps
}

func (c *jsonChecker) fault(path, expected, found, hint string) {
	c.faults.add(Fault{File: c.file, Path: path, Expected: expected, Found: found, Hint: hint})
}

// replace reports a value of the wrong type and returns what takes its place.
func (c *jsonChecker) replace(v any, fd protoreflect.FieldDescriptor, path, expected, hint string) any {
	c.fault(path, expected, describeJSON(v), hint)
	c.gaps.paths[path] = true
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return map[string]any{}
	case protoreflect.BoolKind:
		return false
	case protoreflect.StringKind:
		if n, ok := v.(json.Number); ok {
			return n.String()
		}
		return ""
	default:
		return json.Number("0")
	}
}

func (c *jsonChecker) message(v any, md protoreflect.MessageDescriptor, path string) any {
	object, ok := v.(map[string]any)
	if !ok {
		if v == nil && path != "" {
			return v
		}
		c.fault(path, "an object", describeJSON(v), "")
		c.gaps.paths[path] = true
		if path != "" {
			v = map[string]any{}
		}
		return v
	}
	chosen := map[protoreflect.OneofDescriptor]string{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if len(c.faults) >= maxFaults {
			break
		}
		at := name
		if fd != nil {
			at = string(fd.Name()) // in either spelling the name that later faults have
		}
		if path != "" {
			at = path + "." + at
		}
		if fd == nil {
			in := "the model configuration"
			if path != "" {
				in = string(md.Name())
			}
			c.fault(at, "a field of "+in, "unknown field "+quote(name), suggestField(name, md))
			delete(object, name)
			if meant := nearest(name, fieldNames(md)); meant != "" && !hasField(object, md, meant) {
				c.gaps.missing(path, meant)
			}
			continue
		}
		if oneof := fd.ContainingOneof(); oneof != nil && object[name] != nil {
			if other := chosen[oneof]; other != "" {
				c.fault(at, "only one of "+oneofNames(oneof), fmt.Sprintf("%q besides %q", name, other), "")
				delete(object, name)
				continue
			}
			chosen[oneof] = name
		}
		object[name] = c.field(object[name], fd, at)
	}
	return object
}

// hasField reports whether an object has a field, in either spelling.
func hasField(object map[string]any, md protoreflect.MessageDescriptor, name string) bool {
	_, plain := object[name]
	_, camel := object[md.Fields().ByName(protoreflect.Name(name)).JSONName()]
	return plain || camel
}

func (c *jsonChecker) field(v any, fd protoreflect.FieldDescriptor, path string) any {
	switch {
	case v == nil: // null is the default, for every type
	case fd.IsMap():
		entries, ok := v.(map[string]any)
		if !ok {
			c.fault(path, "an object", describeJSON(v), "")
			c.gaps.paths[path] = true
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			entries[key] = c.value(entries[key], fd.MapValue(), mapPath(path, key))
		}
	case fd.IsList():
		list := flatten(nil, v)
		for i := range list {
			list[i] = c.value(list[i], fd, path+"["+strconv.Itoa(i)+"]")
		}
		return list
	default:
		return c.value(v, fd, path)
	}
	return v
}

// flatten returns the elements of a list as protobuf's JSON takes them: one value
// stands for a list of it, and lists in a list for their elements.
func flatten(to []any, v any) []any {
	list, ok := v.([]any)
	if !ok {
		return append(to, v)
	}
	for _, element := range list {
		to = flatten(to, element)
	}
	return to
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
		return c.replace(v, fd, path, describeField(fd), "")
	}
	return v
}

// integer accepts what protobuf's JSON accepts: 3, "3", and 3.0, which is left
// to protojson.
func (c *jsonChecker) integer(v any, kind protoreflect.Kind) bool {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return false
	}
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && f == math.Trunc(f)
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
		return c.replace(v, fd, path, describeField(fd), suggestEnum(v, fd.Enum()))
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 32)
		if err != nil || values.ByNumber(protoreflect.EnumNumber(n)) == nil {
			return c.replace(v, fd, path, describeField(fd), "")
		}
	default:
		return c.replace(v, fd, path, describeField(fd), "")
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
