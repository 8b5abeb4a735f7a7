package read

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// scalar reads a value that is one word, or several texts in a row. Where it is
// none of the field's type it reports that and returns a placeholder.
func (s *scanner) scalar(fd protoreflect.FieldDescriptor, path string, t token) protoreflect.Value {
	var v protoreflect.Value
	hint, ok := "", false
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
	case protoreflect.StringKind:
		if ok = t.kind == tokenString; ok {
			return s.text(path, t)
		}
		if t.kind == tokenIdent {
			hint = "texts stand in quotes"
		}
	case protoreflect.BoolKind:
		var b bool
		b, ok = boolean(t)
		v = protoreflect.ValueOfBool(b)
	case protoreflect.EnumKind:
		return s.enum(fd, path, t)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		var f float64
		f, ok = float(t)
		if v = protoreflect.ValueOfFloat64(f); fd.Kind() == protoreflect.FloatKind {
			v = protoreflect.ValueOfFloat32(float32(f))
		}
	default:
		var outOfRange bool
		if v, ok, outOfRange = integer(fd.Kind(), t); outOfRange {
			hint = "the value is out of range"
		}
	}
	if ok {
		return v
	}
	s.mild(t.pos, path, describeField(fd), t.String(), hint)
	return s.replace(fd, path, t)
}

// text joins texts in a row.
func (s *scanner) text(path string, t token) protoreflect.Value {
	var all strings.Builder
	for _, part := range append([]token{t}, t.more...) {
		text, piece, bad := unescape(part.text)
		if piece != "" {
			at := fault.Position{Line: part.pos.Line, Column: part.pos.Column + utf8.RuneCountInString(part.text[:bad])}
			s.unreadable(path, at, piece)
			return protoreflect.ValueOfString("")
		}
		all.WriteString(text)
	}
	if text := all.String(); utf8.ValidString(text) {
		return protoreflect.ValueOfString(text)
	}
	s.unreadable(path, t.pos, t.text)
	return protoreflect.ValueOfString("")
}

// unreadable reports a piece of a text that stands for no character.
func (s *scanner) unreadable(path string, at fault.Position, piece string) {
	s.bad = append(s.bad, path)
	if piece[0] == '\\' {
		s.mild(at, path, `an escape such as \n, \", \\, \x41 or \u00e9`, fault.Quote(piece), "a backslash itself is written \\\\")
		return
	}
	s.mild(at, path, "a text in UTF-8", fault.Quote(piece), "")
}

func (s *scanner) enum(fd protoreflect.FieldDescriptor, path string, t token) protoreflect.Value {
	values, hint := fd.Enum().Values(), ""
	switch t.kind {
	case tokenIdent:
		if v := values.ByName(protoreflect.Name(t.text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number())
		}
		hint = suggestEnum(t.text, fd.Enum())
	case tokenNumber:
		n, ok, _ := integer(protoreflect.Int32Kind, t)
		if !ok {
			break
		}
		if number := protoreflect.EnumNumber(n.Int()); values.ByNumber(number) != nil { //nolint:gosec // 32 bits
			return protoreflect.ValueOfEnum(number)
		}
	default:
		if name := unquote(t.text); values.ByName(protoreflect.Name(name)) != nil {
			hint = "write it without quotes"
		} else {
			hint = suggestEnum(name, fd.Enum())
		}
	}
	s.mild(t.pos, path, describeField(fd), t.String(), hint)
	return s.replace(fd, path, t)
}

// replace notes a value of another type than its field's and returns what stands
// in for it.
func (s *scanner) replace(fd protoreflect.FieldDescriptor, path string, t token) protoreflect.Value {
	s.bad = append(s.bad, path)
	return placeholder(fd, t)
}

// placeholder is a value of the field's type in place of a word that is none: what
// was likely meant, where that only lacks quotes or has too many, else the default,
// which validation complains of least. A message has no value of its own: it stays
// empty.
func placeholder(fd protoreflect.FieldDescriptor, word token) protoreflect.Value {
	bare := token{kind: tokenNumber, text: unquote(word.text)}
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return protoreflect.Value{}
	case protoreflect.StringKind:
		if word.kind == tokenIdent || word.kind == tokenNumber {
			return protoreflect.ValueOfString(word.text)
		}
		return protoreflect.ValueOfString("")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(bare.text == "true")
	case protoreflect.EnumKind:
		if v := fd.Enum().Values().ByName(protoreflect.Name(bare.text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number())
		}
		return protoreflect.ValueOfEnum(0)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0)
	default:
		v, ok, _ := integer(fd.Kind(), bare)
		if !ok {
			v, _, _ = integer(fd.Kind(), token{kind: tokenNumber, text: "0"})
		}
		return v
	}
}

// describeField says what a field takes.
func describeField(fd protoreflect.FieldDescriptor) string {
	if fd == nil {
		return "a value"
	}
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if fd.IsMap() {
			return "an entry { key: ... value: ... }"
		}
		return "a message { ... }"
	case protoreflect.StringKind:
		return "a text in quotes"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(enumNames(fd.Enum()), ", ")
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "an integer of at least 0 (" + fd.Kind().String() + ")"
	default:
		return "an integer (" + fd.Kind().String() + ")"
	}
}
