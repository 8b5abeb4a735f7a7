package jsonscan

import (
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/nesoserve/neso/backend"
)

// MaxNesting bounds arrays and objects inside each other.
const MaxNesting = 100

// Fault is a violation of JSON's grammar. The texts are those that Triton's
// parser gives.
type Fault uint8

// FaultNone is the zero value; the texts of the others stand below.
const (
	FaultNone Fault = iota
	FaultEmpty
	FaultRoot
	FaultValue
	FaultName
	FaultColon
	FaultMember
	FaultElement
	FaultHex
	FaultSurrogate
	FaultEscape
	FaultQuote
	FaultTooBig
	FaultFraction
	FaultExponent
	FaultNesting
)

var faultTexts = [...]string{
	FaultEmpty:     "The document is empty.",
	FaultRoot:      "The document root must not be followed by other values.",
	FaultValue:     "Invalid value.",
	FaultName:      "Missing a name for object member.",
	FaultColon:     "Missing a colon after a name of object member.",
	FaultMember:    "Missing a comma or '}' after an object member.",
	FaultElement:   "Missing a comma or ']' after an array element.",
	FaultHex:       `Incorrect hex digit after \u escape in string.`,
	FaultSurrogate: "The surrogate pair in string is invalid.",
	FaultEscape:    "Invalid escape character in string.",
	FaultQuote:     "Missing a closing quotation mark in string.",
	FaultTooBig:    "Number too big to be stored in double.",
	FaultFraction:  "Miss fraction part in number.",
	FaultExponent:  "Miss exponent in number.",
}

// Scanner walks over JSON text once, without building anything. Its methods
// return false after a fault, which stays in the scanner. Its place is open to
// callers, for loops that look at each byte.
type Scanner struct {
	B   []byte // the text
	I   int    // where the scanner stands
	Bad Fault
	at  int
	// Text holds the last string that had escapes.
	Text []byte
}

// Reset makes the scanner stand at the beginning of b.
func (s *Scanner) Reset(b []byte) {
	s.B, s.I, s.Bad, s.at = b, 0, FaultNone, 0
	if len(b) >= 3 && b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf {
		s.I = 3 // a byte order mark, which some editors and libraries write
	}
}

// Fail notes a fault at a position and returns false.
func (s *Scanner) Fail(f Fault, at int) bool {
	s.Bad, s.at = f, at
	return false
}

// Err returns the fault as an error about what was parsed.
func (s *Scanner) Err(what string) *backend.Error {
	if s.Bad == FaultNesting {
		return invalid("JSON nesting depth exceeds maximum allowed limit (100)")
	}
	return invalid("failed to parse the " + what + " JSON buffer: " + faultTexts[s.Bad] + " at " + strconv.Itoa(s.at))
}

// Peek returns the next byte that is not white space, or 0 at the end, and
// stands on it.
func (s *Scanner) Peek() byte {
	for s.I < len(s.B) {
		switch c := s.B[s.I]; c {
		case ' ', '\n', '\r', '\t':
			s.I++
		default:
			return c
		}
	}
	return 0
}

// End checks that nothing but white space follows the root value.
func (s *Scanner) End() bool {
	if s.Peek(); s.I < len(s.B) {
		return s.Fail(FaultRoot, s.I)
	}
	return true
}

// NextMember moves to the next member of the object whose brace or last value
// was just passed, and stands on its value. It returns ok false at the end of
// the object and after a fault. The name is valid until the next string.
func (s *Scanner) NextMember(first bool) (name []byte, ok bool) {
	c := s.Peek()
	if c == '}' {
		s.I++
		return nil, false
	}
	if !first {
		if c != ',' {
			return nil, s.Fail(FaultMember, s.I)
		}
		s.I++
		c = s.Peek()
	}
	if c != '"' {
		return nil, s.Fail(FaultName, s.I)
	}
	if name, ok = s.Str(); !ok {
		return nil, false
	}
	if s.Peek() != ':' {
		return nil, s.Fail(FaultColon, s.I)
	}
	s.I++
	s.Peek()
	return name, true
}

// NextElement is NextMember for arrays.
func (s *Scanner) NextElement(first bool) bool {
	c := s.Peek()
	if c == ']' {
		s.I++
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		return s.Fail(FaultElement, s.I)
	}
	s.I++
	s.Peek()
	return true
}

// Plain tells the bytes that stand for themselves inside a string.
var Plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// Str reads the string on whose opening quote the scanner stands. The result
// is a view of the text, or of s.Text when the string has escapes.
func (s *Scanner) Str() ([]byte, bool) {
	start := s.I + 1
	i := start
	for i < len(s.B) && Plain[s.B[i]] {
		i++
	}
	if i < len(s.B) && s.B[i] == '"' {
		s.I = i + 1
		return s.B[start:i], true
	}
	text, ok := s.AppendString(s.Text[:0])
	s.Text = text
	return text, ok
}

// AppendString appends the value of the string on whose opening quote the
// scanner stands. Bytes above 0x7F pass as they are, valid UTF-8 or not.
func (s *Scanner) AppendString(dst []byte) ([]byte, bool) {
	b, i := s.B, s.I+1
	for {
		start := i
		for i < len(b) && Plain[b[i]] {
			i++
		}
		dst = append(dst, b[start:i]...)
		if i == len(b) || b[i] == 0 {
			return dst, s.Fail(FaultQuote, i)
		}
		switch b[i] {
		case '"':
			s.I = i + 1
			return dst, true
		case '\\':
			var n int
			if dst, n = s.appendEscape(dst, i); n == 0 {
				return dst, false
			}
			i += n
		default: // a control character
			return dst, s.Fail(FaultEscape, i)
		}
	}
}

// appendEscape appends what the escape at position i stands for and returns
// its length, or 0 after a fault.
func (s *Scanner) appendEscape(dst []byte, i int) ([]byte, int) {
	if i+1 >= len(s.B) {
		s.Fail(FaultEscape, i)
		return dst, 0
	}
	switch c := s.B[i+1]; c {
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
			s.Fail(FaultHex, i)
			return dst, 0
		}
		if u < 0xD800 || u > 0xDFFF {
			return utf8.AppendRune(dst, u), 6
		}
		if u > 0xDBFF || i+7 >= len(s.B) || s.B[i+6] != '\\' || s.B[i+7] != 'u' {
			s.Fail(FaultSurrogate, i)
			return dst, 0
		}
		low, ok := s.hex(i + 8)
		if !ok {
			s.Fail(FaultHex, i)
			return dst, 0
		}
		if low < 0xDC00 || low > 0xDFFF {
			s.Fail(FaultSurrogate, i)
			return dst, 0
		}
		return utf8.AppendRune(dst, (u-0xD800)<<10|(low-0xDC00)+0x10000), 12
	}
	s.Fail(FaultEscape, i)
	return dst, 0
}

func (s *Scanner) hex(i int) (rune, bool) {
	if i+4 > len(s.B) {
		return 0, false
	}
	var u rune
	for _, c := range s.B[i : i+4] {
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

// Word passes a literal. The fault stands where the text departs from it.
func (s *Scanner) Word(w string) bool {
	for k := range len(w) {
		if s.I >= len(s.B) || s.B[s.I] != w[k] {
			return s.Fail(FaultValue, s.I)
		}
		s.I++
	}
	return true
}

// Skip passes one value of any kind.
func (s *Scanner) Skip() bool {
	var objects [2]uint64 // bit n: the container at depth n is an object
	depth := 0
	inObject := func() bool { return objects[depth>>6]>>(depth&63)&1 != 0 }
	for {
		// On a value.
		closed := false
		switch s.Peek() {
		case '{', '[':
			object := s.B[s.I] == '{'
			if depth++; depth > MaxNesting {
				return s.Fail(FaultNesting, s.I)
			}
			s.I++
			if object {
				objects[depth>>6] |= 1 << (depth & 63)
				if _, ok := s.NextMember(true); ok {
					continue
				}
			} else {
				objects[depth>>6] &^= 1 << (depth & 63)
				if s.NextElement(true) {
					continue
				}
			}
			if s.Bad != FaultNone {
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
				_, more = s.NextMember(false)
			} else {
				more = s.NextElement(false)
			}
			if s.Bad != FaultNone {
				return false
			}
			if more {
				break
			}
			closed = true
		}
	}
}

func (s *Scanner) skipScalar() bool {
	switch s.Peek() {
	case '"':
		_, ok := s.Str()
		return ok
	case 't':
		return s.Word("true")
	case 'f':
		return s.Word("false")
	case 'n':
		return s.Word("null")
	default:
		var d Decimal
		if !s.Decimal(&d) {
			return false
		}
		if d.exp > 280 || d.digits > 19 { // may be too big
			_, ok := s.Float64(&d)
			return ok
		}
		return true
	}
}

// View returns b as a string that shares its memory, for calls that do not
// keep it.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func invalid(text string) *backend.Error {
	return &backend.Error{Code: backend.InvalidArg, Message: text}
}
