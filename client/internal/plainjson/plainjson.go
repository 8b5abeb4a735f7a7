// Package plainjson writes protobuf messages as JSON in the way of the protocol's
// HTTP form: fields under their own names, 64-bit numbers as numbers, defaults
// written out. The package protojson writes 64-bit numbers as strings.
package plainjson

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshal returns a message as JSON.
func Marshal(m proto.Message) json.RawMessage { return appendMessage(nil, m.ProtoReflect()) }

func appendMessage(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	first := true
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue // a message, or one of several choices
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(strconv.AppendQuote(b, string(f.Name())), ':')
		b = appendField(b, f, m.Get(f))
	}
	return append(b, '}')
}

func appendField(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch {
	case f.IsMap():
		return appendMap(b, f, v.Map())
	case f.IsList():
		b = append(b, '[')
		for i := range v.List().Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, f, v.List().Get(i))
		}
		return append(b, ']')
	}
	return appendValue(b, f, v)
}

func appendMap(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k.String()), ':')
		b = appendValue(b, f.MapValue(), m.Get(k))
	}
	return append(b, '}')
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		return appendMessage(b, x)
	case string:
		return appendString(b, x)
	case []byte:
		return appendString(b, base64.StdEncoding.EncodeToString(x))
	case bool:
		return strconv.AppendBool(b, x)
	case protoreflect.EnumNumber:
		if e := f.Enum().Values().ByNumber(x); e != nil {
			return appendString(b, string(e.Name()))
		}
		return strconv.AppendInt(b, int64(x), 10)
	case float32:
		return appendFloat(b, float64(x), 32)
	case float64:
		return appendFloat(b, x, 64)
	case int32, int64:
		return strconv.AppendInt(b, v.Int(), 10)
	}
	return strconv.AppendUint(b, v.Uint(), 10)
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // of a string it never fails
	return append(b, text...)
}

// appendFloat writes what JSON has no number for as a string.
func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendQuote(b, strconv.FormatFloat(f, 'g', -1, bits))
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}
