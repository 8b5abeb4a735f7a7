package encode

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// YAML returns the YAML of a configuration in JSON, with its members in their
// order.
func YAML(json []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(escaped(json), &doc); err != nil { // JSON is YAML
		return nil, err
	}
	blockStyle(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// lineBreaks end a line in YAML, where outside of double quotes they become blanks.
const lineBreaks = "\u0085\u2028\u2029"

// escaped escapes what JSON allows in its texts and YAML does not, or reads as
// something else: DEL, the control characters above it, the ends of lines, and a
// few that are no characters.
func escaped(json []byte) []byte {
	special := func(r rune) bool {
		return r >= 0x7f && r < 0xa0 || strings.ContainsRune(lineBreaks, r) || r == 0xfeff || r == 0xfffe || r == 0xffff
	}
	if bytes.IndexFunc(json, special) < 0 {
		return json
	}
	var out []byte
	for _, r := range string(json) {
		if special(r) {
			out = fmt.Appendf(out, `\u%04X`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// blockStyle drops the style of the JSON source. Lists of plain values stay in
// one line, since dims read best that way.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		switch strings.ToLower(n.Value) {
		case "y", "n", "yes", "no", "on", "off": // truth values to older readers
			n.Style = yaml.DoubleQuotedStyle
		}
		if strings.ContainsAny(n.Value, lineBreaks) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	flow := len(n.Content) == 0
	if n.Kind == yaml.SequenceNode {
		flow = true
		for _, c := range n.Content {
			flow = flow && c.Kind == yaml.ScalarNode
		}
	}
	if flow && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// AppendText appends the fields that are set, in the form of config.pbtxt, each
// line with the indent before it. prototext's own printer varies
// its blanks on purpose, which makes it useless for diffs.
func AppendText(b []byte, m protoreflect.Message, indent string) []byte {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		name, v := string(fd.Name()), m.Get(fd)
		switch {
		case fd.IsMap():
			for _, key := range sortedKeys(v.Map()) {
				b = append(b, indent+name+" {\n"...)
				b = append(b, indent+"  key: "...)
				b = appendTextScalar(b, fd.MapKey(), key.Value())
				b = append(b, '\n')
				b = appendTextField(b, fd.MapValue(), "value", v.Map().Get(key), indent+"  ")
				b = append(b, indent+"}\n"...)
			}
		case fd.IsList() && fd.Message() != nil:
			for j, list := 0, v.List(); j < list.Len(); j++ {
				b = appendTextField(b, fd, name, list.Get(j), indent)
			}
		case fd.IsList():
			b = append(b, indent+name+": [ "...)
			for j, list := 0, v.List(); j < list.Len(); j++ {
				if j > 0 {
					b = append(b, ", "...)
				}
				b = appendTextScalar(b, fd, list.Get(j))
			}
			b = append(b, " ]\n"...)
		default:
			b = appendTextField(b, fd, name, v, indent)
		}
	}
	return b
}

func appendTextField(b []byte, fd protoreflect.FieldDescriptor, name string, v protoreflect.Value, indent string) []byte {
	b = append(b, indent+name...)
	if fd.Message() == nil {
		b = append(b, ": "...)
		b = appendTextScalar(b, fd, v)
		return append(b, '\n')
	}
	b = append(b, " {"...)
	start := len(b)
	b = append(b, '\n')
	b = AppendText(b, v.Message(), indent+"  ")
	if len(b) == start+1 {
		return append(b[:start], " }\n"...)
	}
	return append(b, indent+"}\n"...)
}

func appendTextScalar(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return append(b, ev.Name()...)
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.StringKind:
		return appendTextString(b, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.FloatKind:
		return appendTextFloat(b, v.Float(), 32)
	case protoreflect.DoubleKind:
		return appendTextFloat(b, v.Float(), 64)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	default:
		return strconv.AppendInt(b, v.Int(), 10)
	}
}

func appendTextFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// appendTextString quotes a text; control characters become octal escapes,
// which every reader of the format knows.
func appendTextString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
