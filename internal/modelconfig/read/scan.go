package read

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// maxDepth bounds the nesting of messages and lists; the schema itself is
// eight deep.
const maxDepth = 32

// maxPlaces bounds the values of one field whose places are kept; for further
// ones the place of the field has to do.
const maxPlaces = 1000

// scanner reads a configuration along the schema. It finds all faults of syntax
// and schema at once, where protobuf's parser stops at the first, and notes where
// each field stands, so that faults found later have a line.
type scanner struct {
	lex    lexer
	tok    token // the current one
	peeked *token
	file   string
	faults fault.List
	// places holds the position of each field by its path.
	places map[string]fault.Position
	depth  int
	// ended is set once the end of the file has been reported where it does not
	// belong: what is open further out needs no fault of its own.
	ended bool
	// broken is set once it is not clear what belongs to what.
	broken bool
	// bad are the paths of the values that are not the user's, because what the user
	// wrote cannot be read; unknown are the fields that do not exist.
	bad     []string
	unknown []unknownField
}

// unknownField is one that does not exist, with the one that was likely meant.
type unknownField struct{ parent, meant string }

// scan reads a text into a message.
func scan(text, file string, m protoreflect.Message) *scanner {
	s := &scanner{lex: lexer{text: text, line: 1}, file: file, places: map[string]fault.Position{}}
	s.advance()
	s.message(m.Descriptor(), message{m}, "", token{})
	return s
}

// gaps returns the fields that what cannot be read leaves open.
func (s *scanner) gaps() *fault.Gaps {
	g := fault.NewGaps()
	for _, path := range s.bad {
		if entry, ok := strings.CutSuffix(path, "\"].key"); ok {
			path = fault.Parent(entry + "\"]") // the entry has another key now, so any entry may be it
		}
		g.Add(path)
	}
	for _, u := range s.unknown {
		if strings.HasSuffix(u.parent, "\"]") && (u.meant == "key" || u.meant == "value") {
			g.Add(fault.Parent(u.parent))
			continue
		}
		path := u.meant
		if u.parent != "" {
			path = u.parent + "." + u.meant
		}
		if _, present := s.places[path]; !present {
			g.Missing(u.parent, u.meant)
		}
	}
	return g
}

func (s *scanner) advance() {
	if s.peeked != nil {
		s.tok, s.peeked = *s.peeked, nil
		return
	}
	s.tok = s.lex.next()
}

func (s *scanner) peek() token {
	if s.peeked == nil {
		t := s.lex.next()
		s.peeked = &t
	}
	return *s.peeked
}

// fault reports a fault after which nothing can be read for sure.
func (s *scanner) fault(pos fault.Position, path, expected, found, hint string) {
	s.broken = true
	s.mild(pos, path, expected, found, hint)
}

// mild reports a fault of a value or a field that the rest can be read without.
func (s *scanner) mild(pos fault.Position, path, expected, found, hint string) {
	s.faults.Add(fault.Fault{
		File: s.file, Line: pos.Line, Column: pos.Column,
		Path: path, Expected: expected, Found: found, Hint: hint,
	})
}

// message reads fields into to, up to the end of the message that open began, or
// of the file where open is no token. md is nil inside an unknown field.
func (s *scanner) message(md protoreflect.MessageDescriptor, to target, path string, open token) {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.fault(open.pos, path, fmt.Sprintf("at most %d levels of nesting", maxDepth), "more", "")
		s.ended = true
		s.skipAll()
		return
	}
	seen := fieldsSeen{}
	for {
		if len(s.faults) >= fault.Max {
			s.ended, s.broken = true, true
			s.skipAll()
		}
		switch {
		case s.tok.kind == tokenEOF:
			if open.kind == tokenPunct && !s.ended {
				s.ended = true
				s.fault(s.tok.pos, path, fmt.Sprintf("%q to end the %q of line %d", closing(open), open.text, open.pos.Line),
					s.tok.String(), "")
			}
			return
		case s.tok.is('}') || s.tok.is('>'):
			if open.kind == tokenPunct {
				if s.tok.text != closing(open) {
					s.fault(s.tok.pos, path, fmt.Sprintf("%q to end the %q of line %d", closing(open), open.text, open.pos.Line),
						s.tok.String(), "")
				}
				s.advance()
				return
			}
			s.fault(s.tok.pos, path, "a field name", s.tok.String(), "nothing is open here that it could close")
			s.advance()
		case s.tok.kind == tokenIdent:
			s.field(md, to, path, seen)
		default:
			s.fault(s.tok.pos, path, "a field name", s.tok.String(), "")
			s.recover()
		}
	}
}

func closing(open token) string {
	if open.text == "<" {
		return ">"
	}
	return "}"
}

// fieldsSeen counts the values of each field in one message.
type fieldsSeen map[protoreflect.FieldDescriptor]struct {
	count int
	first fault.Position
}

// field reads one field into to, and the separator after it.
func (s *scanner) field(md protoreflect.MessageDescriptor, to target, parent string, seen fieldsSeen) {
	name := s.tok
	s.advance()
	path := name.text
	switch {
	case md != nil && md.IsMapEntry() && name.text == "value":
		path = parent // parameters["k"].string_value, without the ".value"
	case parent != "":
		path = parent + "." + name.text
	}
	var fd protoreflect.FieldDescriptor
	if md != nil {
		if fd = md.Fields().ByName(protoreflect.Name(name.text)); fd == nil {
			in := "the model configuration"
			if parent != "" {
				in = string(md.Name())
			}
			s.mild(name.pos, path, "a field of "+in, "unknown field "+fault.Quote(name.text), suggestField(name.text, md))
			if meant := nearest(name.text, fieldNames(md)); meant != "" {
				s.unknown = append(s.unknown, unknownField{parent, meant})
			}
		}
	}
	colon := s.tok.is(':')
	if colon {
		s.advance()
	}
	if fd == nil || !s.once(fd, name, path, seen) {
		to = nil
	}
	switch {
	case s.tok.is('{') || s.tok.is('<'), s.tok.is('[') && (colon || fd == nil || fd.Message() != nil):
	case !colon:
		want := "':'"
		if fd == nil || fd.Message() != nil {
			want = "':' or '{'"
		}
		s.fault(s.tok.pos, path, want+" after "+fault.Quote(name.text), s.tok.String(), "")
		if s.tok.first || fd == nil || !s.startsValue() {
			s.recover()
			return
		}
	case s.tok.kind == tokenEOF, s.tok.is('}'), s.tok.is('>'), s.tok.is(','), s.tok.is(';'),
		s.tok.first && s.startsField():
		s.mild(name.pos, path, describeField(fd), "nothing after ':'", "")
		s.bad = append(s.bad, path)
		return
	}
	if !s.value(fd, to, path, seen, true) {
		s.recover()
		return
	}
	if s.tok.is(',') || s.tok.is(';') {
		s.advance()
	}
}

// once checks that a field which may stand once does, and that no other field
// of its oneof stands beside it.
func (s *scanner) once(fd protoreflect.FieldDescriptor, name token, path string, seen fieldsSeen) (ok bool) {
	if before, again := seen[fd]; again && fd.Cardinality() != protoreflect.Repeated {
		s.mild(name.pos, path, fault.Quote(name.text)+" once", fmt.Sprintf("a second one, the first is in line %d", before.first.Line), "")
		return false
	}
	ok = true
	if oneof := fd.ContainingOneof(); oneof != nil {
		for i := range oneof.Fields().Len() {
			other := oneof.Fields().Get(i)
			if before, set := seen[other]; set && other != fd {
				ok = false
				s.mild(name.pos, path, "only one of "+oneofNames(oneof),
					fmt.Sprintf("%q besides %q of line %d", name.text, other.Name(), before.first.Line), "")
			}
		}
	}
	if fd.Cardinality() != protoreflect.Repeated {
		v := seen[fd]
		v.count++
		v.first = name.pos
		seen[fd] = v
	}
	if _, known := s.places[path]; !known {
		s.places[path] = name.pos
	}
	return ok
}

// value reads one value into to, or a list of them where list is set. It reports
// false when it has lost the thread.
func (s *scanner) value(fd protoreflect.FieldDescriptor, to target, path string, seen fieldsSeen, list bool) bool {
	t := s.tok
	switch {
	case t.is('[') && list:
		if fd != nil && fd.Cardinality() != protoreflect.Repeated {
			s.mild(t.pos, path, describeField(fd), "a list", "")
			put(to, fd, s.replace(fd, path, t))
			return s.list(nil, nil, path, seen)
		}
		return s.list(fd, to, path, seen)
	case t.is('{') || t.is('<'):
		s.advance()
		s.nested(fd, to, s.element(fd, path, seen, t.pos), t)
		return true
	case t.is('-'):
		s.advance()
		t.text += s.tok.text
		t.kind = s.tok.kind
		if t.kind != tokenNumber && t.kind != tokenIdent {
			s.fault(t.pos, path, describeField(fd), fault.Quote(t.text), "")
			return false
		}
		s.advance()
	case t.kind == tokenString:
		for s.tok.kind == tokenString {
			if n := len(s.tok.text); n < 2 || s.tok.text[n-1] != s.tok.text[0] {
				s.fault(s.tok.pos, path, "a closing "+s.tok.text[:1]+" in the same line", s.tok.String(), "")
				s.advance()
				return true
			}
			if s.tok.off != t.off {
				t.more = append(t.more, s.tok)
			}
			s.advance()
		}
	case t.kind == tokenIdent || t.kind == tokenNumber:
		s.advance()
	default:
		s.fault(t.pos, path, describeField(fd), t.String(), "")
		return false
	}
	if fd != nil {
		put(to, fd, s.scalar(fd, s.element(fd, path, seen, t.pos), t))
	}
	return true
}

// element returns the path of the next value of the field: the path itself, or
// with an index where the field repeats.
func (s *scanner) element(fd protoreflect.FieldDescriptor, path string, seen fieldsSeen, pos fault.Position) string {
	if fd == nil || !fd.IsList() {
		return path
	}
	v := seen[fd]
	path += "[" + strconv.Itoa(v.count) + "]"
	v.count++
	seen[fd] = v
	if v.count <= maxPlaces {
		s.places[path] = pos
	}
	return path
}

func (s *scanner) list(fd protoreflect.FieldDescriptor, to target, path string, seen fieldsSeen) bool {
	open := s.tok
	s.advance()
	if s.tok.is(']') {
		s.advance()
		return true
	}
	for {
		if s.tok.is(']') {
			s.fault(s.tok.pos, path, "a value after ','", s.tok.String(), "a list has no comma after its last value")
			s.advance()
			return true
		}
		if s.tok.kind == tokenEOF || s.tok.first && s.startsField() {
			s.fault(s.tok.pos, path, fmt.Sprintf("\"]\" to end the \"[\" of line %d", open.pos.Line), s.tok.String(), "")
			return true
		}
		if !s.value(fd, to, path, seen, false) {
			return false
		}
		switch {
		case s.tok.is(']'):
			s.advance()
			return true
		case s.tok.is(','):
			s.advance()
		case s.startsValue() && (!s.tok.first || !s.startsField()):
			s.fault(s.tok.pos, path, "',' or ']'", s.tok.String(), "")
		default:
			s.fault(s.tok.pos, path, fmt.Sprintf("\"]\" to end the \"[\" of line %d", open.pos.Line), s.tok.String(), "")
			return true
		}
	}
}

// nested reads the message of a field, or the entry of a map.
func (s *scanner) nested(fd protoreflect.FieldDescriptor, to target, path string, open token) {
	switch {
	case fd == nil:
		s.message(nil, nil, path, open)
	case fd.IsMap():
		s.entry(fd, to, path, open)
	case fd.Message() == nil:
		s.mild(open.pos, path, describeField(fd), "a message", "")
		put(to, fd, s.replace(fd, path, open))
		s.message(nil, nil, path, open)
	default:
		s.message(fd.Message(), opened(to, fd), path, open)
	}
}

// entry reads an entry of a map. Its fields get the path of the entry's key,
// so the key is looked for first.
func (s *scanner) entry(fd protoreflect.FieldDescriptor, to target, path string, open token) {
	ahead := *s
	ahead.faults, ahead.places = nil, map[string]fault.Position{}
	key := ""
	for ahead.tok.kind != tokenEOF && !ahead.tok.is('}') && !ahead.tok.is('>') {
		if ahead.tok.kind == tokenIdent && ahead.tok.text == "key" {
			ahead.advance()
			if ahead.tok.is(':') {
				ahead.advance()
			}
			if ahead.tok.kind == tokenString || ahead.tok.kind == tokenNumber {
				key = unquote(ahead.tok.text)
			}
			break
		}
		if ahead.tok.is('{') || ahead.tok.is('<') {
			ahead.advance()
			ahead.message(nil, nil, "", open)
			continue
		}
		ahead.advance()
	}
	path = fault.Entry(path, key)
	s.places[path] = open.pos
	to = opened(to, fd)
	s.message(fd.Message(), to, path, open)
	if e, ok := to.(*entry); ok {
		e.close()
	}
}

func unquote(text string) string {
	if len(text) < 2 || text[0] != '"' && text[0] != '\'' {
		return text
	}
	inner := text[1 : len(text)-1]
	if s, err := strconv.Unquote(`"` + strings.ReplaceAll(inner, `"`, `\"`) + `"`); err == nil && text[0] == '\'' {
		return s
	}
	if s, err := strconv.Unquote(text); err == nil {
		return s
	}
	return inner
}

// startsField reports whether the current token looks like the beginning of a
// field.
func (s *scanner) startsField() bool {
	if s.tok.kind != tokenIdent {
		return false
	}
	next := s.peek()
	return next.is(':') || next.is('{') || next.is('<') || next.is('[')
}

func (s *scanner) startsValue() bool {
	switch s.tok.kind {
	case tokenIdent, tokenNumber, tokenString:
		return true
	default:
		return s.tok.is('{') || s.tok.is('<') || s.tok.is('-')
	}
}

// recover skips to where the next field of the same message seems to start, or
// to the end of the message.
func (s *scanner) recover() {
	depth := 0
	for {
		switch {
		case s.tok.kind == tokenEOF:
			return
		case s.tok.is('{') || s.tok.is('<'):
			depth++
		case s.tok.is('}') || s.tok.is('>'):
			if depth == 0 {
				return
			}
			depth--
		case depth == 0 && s.tok.first && s.startsField():
			return
		}
		s.advance()
	}
}

func (s *scanner) skipAll() {
	for s.tok.kind != tokenEOF {
		s.advance()
	}
}
