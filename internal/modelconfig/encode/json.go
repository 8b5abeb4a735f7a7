package encode

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// quotedIntegers are the 64-bit fields that Triton prints as strings, as
// protobuf's JSON has them. It rewrites all others to numbers.
var quotedIntegers = map[protoreflect.FullName]bool{
	"neso.inference.v1.ModelSequenceBatching.InitialState.dims":          true,
	"neso.inference.v1.ModelInstanceGroup.SecondaryDevice.device_id":     true,
	"neso.inference.v1.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim": true,
}

// AppendJSON appends a message in the form of the config endpoint: fields in
// the order of the .proto file under their own names; numbers, texts, lists
// and maps always, messages and members of a oneof when they are set.
func AppendJSON(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	fields, first := m.Descriptor().Fields(), true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.HasPresence() && !m.Has(fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendJSONString(b, string(fd.Name()))
		b = append(b, ':')
		b = appendJSONField(b, fd, m.Get(fd))
	}
	return append(b, '}')
}

func appendJSONField(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch {
	case fd.IsList():
		b = append(b, '[')
		for i, list := 0, v.List(); i < list.Len(); i++ {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONValue(b, fd, list.Get(i))
		}
		return append(b, ']')
	case fd.IsMap():
		b = append(b, '{')
		for i, key := range sortedKeys(v.Map()) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONString(b, key.String())
			b = append(b, ':')
			b = appendJSONValue(b, fd.MapValue(), v.Map().Get(key))
		}
		return append(b, '}')
	}
	return appendJSONValue(b, fd, v)
}

func appendJSONValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return AppendJSON(b, v.Message())
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return appendJSONString(b, string(ev.Name()))
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.StringKind:
		return appendJSONString(b, v.String())
	case protoreflect.FloatKind:
		return appendJSONFloat(b, v.Float(), 32)
	case protoreflect.DoubleKind:
		return appendJSONFloat(b, v.Float(), 64)
	default: // an integer
	}
	quoted := quotedIntegers[fd.FullName()]
	if quoted {
		b = append(b, '"')
	}
	switch fd.Kind() {
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		b = strconv.AppendUint(b, v.Uint(), 10)
	default:
		b = strconv.AppendInt(b, v.Int(), 10)
	}
	if quoted {
		b = append(b, '"')
	}
	return b
}

// appendJSONFloat follows protobuf's JSON: the three values that JSON has no
// number for are texts.
func appendJSONFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	format := byte('f') // as ECMAScript, and so most JSON, has it
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, f, format, -1, bits)
	if n := len(b); format == 'e' && n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1] // e-09 is e-9 in JSON
		b = b[:n-1]
	}
	return b
}

// appendJSONString escapes what JSON demands and nothing else.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, '"')
}

// sortedKeys makes the output of maps stable.
func sortedKeys(m protoreflect.Map) []protoreflect.MapKey {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		if x, ok := a.Interface().(uint64); ok {
			return cmp.Compare(x, b.Uint())
		}
		return cmp.Compare(a.String(), b.String())
	})
	return keys
}
