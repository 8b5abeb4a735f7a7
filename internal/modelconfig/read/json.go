package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// JSON reads a configuration in the JSON form, a load override or what a backend
// completed, into a message. The rules are those of protobuf's JSON (either spelling
// of field names, 64-bit numbers and booleans also as texts) as its C++ parser
// has them (see lenient), with names of enum values in any case; unknown fields
// are refused. The filename is used in faults and may be empty. As with [Text], the
// source is nil where nothing can be made of it.
func JSON(data []byte, filename string, to protoreflect.Message) (*fault.Source, fault.List) {
	if len(data) > MaxSize {
		return nil, tooLarge(filename, len(data))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors and libraries write it
	tree, err := decodeTree(data)
	if err != nil {
		tree, err = decodeLenient(data)
	}
	if err != nil {
		return nil, notJSON(data, filename, err)
	}
	r := jsonReader{file: filename, gaps: fault.NewGaps()}
	r.message(tree, to.Descriptor(), message{to}, "")
	if _, ok := tree.(map[string]any); !ok || len(r.faults) >= fault.Max { // nothing or not all was looked at
		return nil, r.faults
	}
	from := &fault.Source{File: filename}
	if len(r.faults) > 0 {
		from.Gaps = r.gaps
	}
	return from, r.faults
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

func notJSON(data []byte, filename string, err error) fault.List {
	f := fault.Fault{File: filename, Expected: "a JSON object", Found: err.Error()}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		before := data[:min(len(data), int(max(0, syntax.Offset-1)))]
		f.Line = bytes.Count(before, []byte{'\n'}) + 1
		f.Column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	var fs fault.List
	fs.Add(f)
	return fs
}

// jsonReader walks decoded JSON along the schema and gives the values to targets. It
// finds every unknown field and wrong value at once; what takes the place of a wrong
// value is the same as in text.
type jsonReader struct {
	file   string
	faults fault.List
	gaps   *fault.Gaps
}

func (r *jsonReader) fault(path, expected, found, hint string) {
	r.faults.Add(fault.Fault{File: r.file, Path: path, Expected: expected, Found: found, Hint: hint})
}

// wrong reports a value of the wrong type.
func (r *jsonReader) wrong(v any, path, expected, hint string) {
	r.fault(path, expected, describeJSON(v), hint)
	r.gaps.Add(path)
}

func (r *jsonReader) message(v any, md protoreflect.MessageDescriptor, to target, path string) {
	object, ok := v.(map[string]any)
	if !ok {
		r.wrong(v, path, "an object", "")
		return
	}
	seen, chosen := map[protoreflect.FieldDescriptor]string{}, map[protoreflect.OneofDescriptor]string{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(r.faults) >= fault.Max {
			return
		}
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		at := name
		if fd != nil {
			at = string(fd.Name()) // in either spelling the name that later faults have
		}
		if path != "" {
			at = path + "." + at
		}
		switch v := object[name]; {
		case fd == nil:
			r.unknown(name, at, path, md, object)
		case v == nil: // null is the default, for every type
		case seen[fd] != "":
			r.fault(at, fault.Quote(string(fd.Name()))+" once", fmt.Sprintf("%q besides %q", name, seen[fd]), "")
		case chosen[fd.ContainingOneof()] != "":
			r.fault(at, "only one of "+oneofNames(fd.ContainingOneof()),
				fmt.Sprintf("%q besides %q", name, chosen[fd.ContainingOneof()]), "")
		default:
			seen[fd] = name
			if oneof := fd.ContainingOneof(); oneof != nil {
				chosen[oneof] = name
			}
			r.field(v, fd, to, at)
		}
	}
}

// unknown reports a field at a path that the message of parent does not have.
func (r *jsonReader) unknown(name, path, parent string, md protoreflect.MessageDescriptor, object map[string]any) {
	in := "the model configuration"
	if parent != "" {
		in = string(md.Name())
	}
	r.faults.Add(fault.Fault{
		File: r.file, Path: path, Unknown: name,
		Expected: "a field of " + in, Found: "unknown field " + fault.Quote(name), Hint: suggestField(name, md),
	})
	if meant := nearest(name, fieldNames(md)); meant != "" && !hasField(object, md, meant) {
		r.gaps.Missing(parent, meant)
	}
}

// hasField reports whether an object has a field, in either spelling.
func hasField(object map[string]any, md protoreflect.MessageDescriptor, name string) bool {
	_, plain := object[name]
	_, camel := object[md.Fields().ByName(protoreflect.Name(name)).JSONName()]
	return plain || camel
}

func (r *jsonReader) field(v any, fd protoreflect.FieldDescriptor, to target, path string) {
	switch {
	case fd.IsMap():
		entries, ok := v.(map[string]any)
		if !ok {
			r.wrong(v, path, "an object", "")
			return
		}
		r.entries(entries, fd, to, path)
	case fd.IsList():
		for i, element := range flatten(nil, v) {
			r.value(element, fd, to, path+"["+strconv.Itoa(i)+"]")
		}
	default:
		r.value(v, fd, to, path)
	}
}

func (r *jsonReader) entries(entries map[string]any, fd protoreflect.FieldDescriptor, to target, path string) {
	seen := map[any]string{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		at := fault.Entry(path, name)
		into := opened(to, fd)
		key, ok := jsonKey(name, fd.MapKey())
		if !ok {
			r.fault(at, describeField(fd.MapKey()), fault.Quote(name), "")
			r.gaps.Add(path) // any entry may be it
			into = nil
		} else if other, again := seen[key.Interface()]; again {
			r.fault(at, "each key once", fmt.Sprintf("%q besides %q", name, other), "")
			into = nil
		} else {
			seen[key.Interface()] = name
			put(into, fd.MapKey(), key)
		}
		r.value(entries[name], fd.MapValue(), into, at)
		if e, ok := into.(*entry); ok {
			e.close()
		}
	}
}

// jsonKey reads the key of a map: a text, or a number in one.
func jsonKey(name string, fd protoreflect.FieldDescriptor) (key protoreflect.Value, ok bool) {
	if fd.Kind() == protoreflect.StringKind {
		return protoreflect.ValueOfString(name), true
	}
	n, err := strconv.ParseUint(name, 10, 64) // the configuration has no other keys
	return protoreflect.ValueOfUint64(n), err == nil
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

func (r *jsonReader) value(v any, fd protoreflect.FieldDescriptor, to target, path string) {
	if fd.Kind() == protoreflect.MessageKind {
		r.message(v, fd.Message(), opened(to, fd), path)
		return
	}
	value, ok := jsonScalar(v, fd)
	if !ok {
		hint := ""
		if name, text := v.(string); text && fd.Kind() == protoreflect.EnumKind {
			hint = suggestEnum(name, fd.Enum())
		}
		r.wrong(v, path, describeField(fd), hint)
		word := token{}
		if n, number := v.(json.Number); number && fd.Kind() == protoreflect.StringKind {
			word = token{kind: tokenNumber, text: n.String()}
		}
		value = placeholder(fd, word)
	}
	put(to, fd, value)
}

// truths are the texts that stand for booleans, in any case.
var truths = map[string]bool{
	"true": true, "t": true, "yes": true, "y": true, "1": true,
	"false": false, "f": false, "no": false, "n": false, "0": false,
}

// jsonScalar reads a value that is no message.
func jsonScalar(v any, fd protoreflect.FieldDescriptor) (value protoreflect.Value, ok bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		text, ok := v.(string)
		return protoreflect.ValueOfString(text), ok
	case protoreflect.BoolKind:
		b, ok := v.(bool)
		if text, is := v.(string); is {
			b, ok = truths[strings.ToLower(text)]
		}
		return protoreflect.ValueOfBool(b), ok
	case protoreflect.EnumKind:
		n, ok := jsonEnum(v, fd.Enum().Values())
		return protoreflect.ValueOfEnum(n), ok
	case protoreflect.FloatKind:
		f, ok := jsonFloat(v, 32)
		return protoreflect.ValueOfFloat32(float32(f)), ok
	case protoreflect.DoubleKind:
		f, ok := jsonFloat(v, 64)
		return protoreflect.ValueOfFloat64(f), ok
	default:
		text, ok := whole(strings.TrimPrefix(numberText(v), "+"))
		if !ok {
			return value, false
		}
		value, ok, _ = integer(fd.Kind(), token{kind: tokenNumber, text: text})
		return value, ok
	}
}

func jsonEnum(v any, values protoreflect.EnumValueDescriptors) (protoreflect.EnumNumber, bool) {
	var found protoreflect.EnumValueDescriptor
	switch v := v.(type) {
	case string:
		if found = values.ByName(protoreflect.Name(v)); found == nil {
			found = values.ByName(protoreflect.Name(strings.ToUpper(v)))
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 32); err == nil {
			found = values.ByNumber(protoreflect.EnumNumber(n))
		}
	}
	if found == nil {
		return 0, false
	}
	return found.Number(), true
}

// numberText returns a number, which may be a text; "" for what is neither.
func numberText(v any) string {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case string:
		return v
	default:
		return ""
	}
}

// decimalForm are the numbers of JSON.
var decimalForm = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$`)

func jsonFloat(v any, bits int) (float64, bool) {
	text := numberText(v)
	switch {
	case text == "NaN", text == "Infinity", text == "-Infinity":
		return floats[strings.ToLower(text)], true
	case !decimalForm.MatchString(text):
		return 0, false
	}
	f, err := strconv.ParseFloat(text, bits)
	return f, err == nil
}

// whole writes a number of JSON that is an integer, such as 3, 3.0 or 3e2, without
// point and exponent. One that is longer than every kind of integer is none.
func whole(text string) (string, bool) {
	if !decimalForm.MatchString(text) {
		return "", false
	}
	const longest = 20
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(text[i+1:]) // the largest there is, where it is out of range
		exponent, text = min(max(exponent, -MaxSize), MaxSize), text[:i]
	}
	before, after, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(before+after, "0")
	point := len(digits) - len(after) + exponent
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "0", true
	}
	if len(digits) > point || point > longest {
		return "", false
	}
	return sign + digits + strings.Repeat("0", point-len(digits)), true
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
		return fault.Quote(v)
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
