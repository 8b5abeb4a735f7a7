package kserve

import (
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/nesoserve/neso/backend"
)

// maxNesting bounds arrays and objects inside each other.
const maxNesting = 100

// fault is a violation of JSON's grammar. The texts are those that Triton's
// parser gives.
type fault uint8

const (
	faultNone fault = iota
	faultEmpty
	faultRoot
	faultValue
	faultName
	faultColon
	faultMember
	faultElement
	faultHex
	faultSurrogate
	faultEscape
	faultQuote
	faultTooBig
	faultFraction
	faultExponent
	faultNesting
)

var faultTexts = [...]string{
	faultEmpty:     "The document is empty.",
	faultRoot:      "The document root must not be followed by other values.",
	faultValue:     "Invalid value.",
	faultName:      "Missing a name for object member.",
	faultColon:     "Missing a colon after a name of object member.",
	faultMember:    "Missing a comma or '}' after an object member.",
	faultElement:   "Missing a comma or ']' after an array element.",
	faultHex:       `Incorrect hex digit after \u escape in string.`,
	faultSurrogate: "The surrogate pair in string is invalid.",
	faultEscape:    "Invalid escape character in string.",
	faultQuote:     "Missing a closing quotation mark in string.",
	faultTooBig:    "Number too big to be stored in double.",
	faultFraction:  "Miss fraction part in number.",
	faultExponent:  "Miss exponent in number.",
}

// scanner walks over JSON text once, without building anything. Its methods
// return false after a fault, which stays in the scanner.
type scanner struct {
	b   []byte
	i   int
	bad fault
	at  int
	// text holds the last string that had escapes.
	text []byte
}

func (s *scanner) reset(b []byte) { s.b, s.i, s.bad, s.at = b, 0, faultNone, 0 }

func (s *scanner) fail(f fault, at int) bool {
	s.bad, s.at = f, at
	return false
}

// err returns the fault as an error about what was parsed.
func (s *scanner) err(what string) *backend.Error {
	if s.bad == faultNesting {
		return invalid("JSON nesting depth exceeds maximum allowed limit (100)")
	}
	return invalid("failed to parse the " + what + " JSON buffer: " + faultTexts[s.bad] + " at " + strconv.Itoa(s.at))
}

// peek returns the next byte that is not white space, or 0 at the end, and
// stands on it.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing but white space follows the root value.
func (s *scanner) end() bool {
	if s.peek(); s.i < len(s.b) {
		return s.fail(faultRoot, s.i)
	}
	return true
}

// nextMember moves to the next member of the object whose brace or last value
// was just passed, and stands on its value. It returns ok false at the end of
// the object and after a fault. The name is valid until the next string.
func (s *scanner) nextMember(first bool) (name []byte, ok bool) {
	c := s.peek()
	if c == '}' {
		s.i++
		return nil, false
	}
	if !first {
		if c != ',' {
			return nil, s.fail(faultMember, s.i)
		}
		s.i++
		c = s.peek()
	}
	if c != '"' {
		return nil, s.fail(faultName, s.i)
	}
	if name, ok = s.str(); !ok {
		return nil, false
	}
	if s.peek() != ':' {
		return nil, s.fail(faultColon, s.i)
	}
	s.i++
	s.peek()
	return name, true
}

// nextElement is nextMember for arrays.
func (s *scanner) nextElement(first bool) bool {
	c := s.peek()
	if c == ']' {
		s.i++
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		return s.fail(faultElement, s.i)
	}
	s.i++
	s.peek()
	return true
}

// plain tells the bytes that stand for themselves inside a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// str reads the string on whose opening quote the scanner stands. The result
// is a view of the text, or of s.text when the string has escapes.
func (s *scanner) str() ([]byte, bool) {
	start := s.i + 1
	i := start
	for i < len(s.b) && plain[s.b[i]] {
		i++
	}
	if i < len(s.b) && s.b[i] == '"' {
		s.i = i + 1
		return s.b[start:i], true
	}
	text, ok := s.appendString(s.text[:0])
	s.text = text
	return text, ok
}

// appendString appends the value of the string on whose opening quote the
// scanner stands. Bytes above 0x7F pass as they are, valid UTF-8 or not.
func (s *scanner) appendString(dst []byte) ([]byte, bool) {
	b, i := s.b, s.i+1
	for {
		start := i
		for i < len(b) && plain[b[i]] {
			i++
		}
		dst = append(dst, b[start:i]...)
		if i == len(b) || b[i] == 0 {
			return dst, s.fail(faultQuote, i)
		}
		switch b[i] {
		case '"':
			s.i = i + 1
			return dst, true
		case '\\':
			var n int
			if dst, n = s.appendEscape(dst, i); n == 0 {
				return dst, false
			}
			i += n
		default: // a control character
			return dst, s.fail(faultEscape, i)
		}
	}
}

// appendEscape appends what the escape at position i stands for and returns
// its length, or 0 after a fault.
func (s *scanner) appendEscape(dst []byte, i int) ([]byte, int) {
	if i+1 >= len(s.b) {
		s.fail(faultEscape, i)
		return dst, 0
	}
	switch c := s.b[i+1]; c {
	case '"', '\\', '/':
		return append(dst, c), 2
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		u, ok := s.hex(i + 2)
		if !ok {
			s.fail(faultHex, i)
			return dst, 0
		}
		if u < 0xD800 || u > 0xDFFF {
			return utf8.AppendRune(dst, u), 6
		}
		if u > 0xDBFF || i+7 >= len(s.b) || s.b[i+6] != '\\' || s.b[i+7] != 'u' {
			s.fail(faultSurrogate, i)
			return dst, 0
		}
		low, ok := s.hex(i + 8)
		if !ok {
			s.fail(faultHex, i)
			return dst, 0
		}
		if low < 0xDC00 || low > 0xDFFF {
			s.fail(faultSurrogate, i)
			return dst, 0
		}
		return utf8.AppendRune(dst, (u-0xD800)<<10|(low-0xDC00)+0x10000), 12
	}
	s.fail(faultEscape, i)
	return dst, 0
}

func (s *scanner) hex(i int) (rune, bool) {
	if i+4 > len(s.b) {
		return 0, false
	}
	var u rune
	for _, c := range s.b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

// word passes a literal. The fault stands where the text departs from it.
func (s *scanner) word(w string) bool {
	for k := range len(w) {
		if s.i >= len(s.b) || s.b[s.i] != w[k] {
			return s.fail(faultValue, s.i)
		}
		s.i++
	}
	return true
}

// skip passes one value of any kind.
func (s *scanner) skip() bool {
	var objects [2]uint64 // bit n: the container at depth n is an object
	depth := 0
	inObject := func() bool { return objects[depth>>6]>>(depth&63)&1 != 0 }
	for {
		// On a value.
		closed := false
		switch s.peek() {
		case '{', '[':
			object := s.b[s.i] == '{'
			if depth++; depth > maxNesting {
				return s.fail(faultNesting, s.i)
			}
			s.i++
			if object {
				objects[depth>>6] |= 1 << (depth & 63)
				if _, ok := s.nextMember(true); ok {
					continue
				}
			} else {
				objects[depth>>6] &^= 1 << (depth & 63)
				if s.nextElement(true) {
					continue
				}
			}
			if s.bad != faultNone {
				return false
			}
			closed = true
		default:
			if !s.skipScalar() {
				return false
			}
		}
		// Behind a value.
		for {
			if closed {
				depth--
			}
			if depth == 0 {
				return true
			}
			var more bool
			if inObject() {
				_, more = s.nextMember(false)
			} else {
				more = s.nextElement(false)
			}
			if s.bad != faultNone {
				return false
			}
			if more {
				break
			}
			closed = true
		}
	}
}

func (s *scanner) skipScalar() bool {
	switch s.peek() {
	case '"':
		_, ok := s.str()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		var d decimal
		if !s.decimal(&d) {
			return false
		}
		if d.exp > 280 || d.digits > 19 { // may be too big
			_, ok := s.float64(&d)
			return ok
		}
		return true
	}
}

// view returns b as a string that shares its memory, for calls that do not
// keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
