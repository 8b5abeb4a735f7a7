package modelconfig

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar checks a value that is one word against the type of its field.
func (s *scanner) scalar(fd protoreflect.FieldDescriptor, path string, t token) {
	hint, ok := "", false
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
	case protoreflect.StringKind, protoreflect.BytesKind:
		ok = t.kind == tokenString
		if !ok && t.kind == tokenIdent {
			hint = "texts stand in quotes"
		}
	case protoreflect.BoolKind:
		switch t.text {
		case "true", "True", "t", "1", "false", "False", "f", "0", "0x0", "0x1", "00", "01":
			ok = t.kind != tokenString
		}
	case protoreflect.EnumKind:
		s.enum(fd, path, t)
		return
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		ok = isFloat(t)
	default:
		var outOfRange bool
		if ok, outOfRange = isInteger(fd.Kind(), t); outOfRange {
			hint = "the value is out of range"
		}
	}
	if !ok {
		s.mild(t.pos, path, describeField(fd), t.String(), hint)
		s.replace(fd, path, t)
	}
}

func (s *scanner) enum(fd protoreflect.FieldDescriptor, path string, t token) {
	values, hint := fd.Enum().Values(), ""
	switch t.kind {
	case tokenIdent:
		if values.ByName(protoreflect.Name(t.text)) != nil {
			return
		}
		hint = suggestEnum(t.text, fd.Enum())
	case tokenNumber:
		if n, err := strconv.ParseInt(t.text, 0, 32); err == nil && values.ByNumber(protoreflect.EnumNumber(n)) != nil {
			return
		}
	default:
		if name := unquote(t.text); values.ByName(protoreflect.Name(name)) != nil {
			hint = "write it without quotes"
		} else {
			hint = suggestEnum(name, fd.Enum())
		}
	}
	s.mild(t.pos, path, describeField(fd), t.String(), hint)
	s.replace(fd, path, t)
}

func isInteger(kind protoreflect.Kind, t token) (ok, outOfRange bool) {
	if t.kind != tokenNumber {
		return false, false
	}
	var err error
	switch kind {
	case protoreflect.Int32Kind:
		_, err = strconv.ParseInt(t.text, 0, 32)
	case protoreflect.Int64Kind:
		_, err = strconv.ParseInt(t.text, 0, 64)
	case protoreflect.Uint32Kind:
		_, err = strconv.ParseUint(t.text, 0, 32)
	case protoreflect.Uint64Kind:
		_, err = strconv.ParseUint(t.text, 0, 64)
	default: // the configuration has no other kinds
	}
	return err == nil, errors.Is(err, strconv.ErrRange)
}

func isFloat(t token) bool {
	if t.kind != tokenNumber && t.kind != tokenIdent {
		return false
	}
	switch strings.ToLower(strings.TrimPrefix(t.text, "-")) {
	case "inf", "infinity", "nan":
		return true
	}
	text := t.text
	if !strings.HasPrefix(strings.TrimPrefix(text, "-"), "0x") {
		text = strings.TrimRight(text, "fF")
	}
	if _, err := strconv.ParseInt(text, 0, 64); err == nil {
		return true
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
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
	case protoreflect.StringKind, protoreflect.BytesKind:
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
