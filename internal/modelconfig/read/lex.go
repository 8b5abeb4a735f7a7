package read

import (
	"strings"
	"unicode/utf8"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// blankComments returns text with every comment ("#" and "//" up to the end of
// the line) and a leading byte order mark replaced by blanks, so that all
// positions stay what they were. Quoted strings are left alone. Triton knows
// only "#"; users write both.
func blankComments(text []byte) []byte {
	out := append([]byte(nil), text...)
	if strings.HasPrefix(string(out[:min(3, len(out))]), "\ufeff") {
		copy(out, "   ")
	}
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"' || c == '\'':
			i = endOfString(out, i)
		case c == '#' || c == '/' && i+1 < len(out) && out[i+1] == '/':
			for i < len(out) && out[i] != '\n' {
				if out[i] != '\r' {
					out[i] = ' '
				}
				i++
			}
		default:
			i++
		}
	}
	return out
}

// endOfString returns the offset after the string that starts at i. A string
// ends at the end of its line at the latest.
func endOfString[T string | []byte](text T, i int) int {
	q := text[i]
	for i++; i < len(text); i++ {
		switch text[i] {
		case q:
			return i + 1
		case '\n':
			return i
		case '\\':
			if i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		}
	}
	return i
}

type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenIdent
	tokenNumber
	tokenString
	tokenPunct // one character
)

// token is one word of the text format.
type token struct {
	kind tokenKind
	text string
	off  int // in the text
	pos  fault.Position
	// first is set on the first token of a line.
	first bool
	// more are the texts behind a text that go on with it.
	more []token
}

// is reports whether the token is the punctuation c.
func (t token) is(c byte) bool { return t.kind == tokenPunct && t.text[0] == c }

// String describes the token in a message.
func (t token) String() string {
	if t.kind == tokenEOF {
		return "the end of the file"
	}
	return fault.Quote(t.text)
}

// lexer cuts text without comments into tokens.
type lexer struct {
	text     string
	off      int
	line     int
	lastLine int // of the last token
	// column is that of the offset counted, on the present line: each byte is
	// looked at once, however long a line is.
	column, counted int
}

func (l *lexer) next() token {
	for l.off < len(l.text) {
		switch l.text[l.off] {
		case '\n':
			l.off++
			l.line++
			l.column, l.counted = 0, l.off
			continue
		case ' ', '\t', '\r', '\v', '\f':
			l.off++
			continue
		}
		break
	}
	t := token{off: l.off, pos: l.position(), first: l.lastLine != l.line}
	l.lastLine = l.line
	if l.off >= len(l.text) {
		return t
	}
	start := l.off
	switch c := l.text[start]; {
	case c == '"' || c == '\'':
		l.off = endOfString(l.text, start)
		t.kind = tokenString
	case isLetter(c):
		l.skip(func(c byte) bool { return isLetter(c) || isDigit(c) })
		t.kind = tokenIdent
	case isDigit(c) || c == '.' && start+1 < len(l.text) && isDigit(l.text[start+1]):
		l.number()
		t.kind = tokenNumber
	default:
		_, n := utf8.DecodeRuneInString(l.text[start:])
		l.off += n
		t.kind = tokenPunct
	}
	t.text = l.text[start:l.off]
	return t
}

func (l *lexer) position() fault.Position {
	l.column += utf8.RuneCountInString(l.text[l.counted:l.off])
	l.counted = l.off
	return fault.Position{Line: l.line, Column: l.column + 1}
}

func (l *lexer) skip(while func(byte) bool) {
	for l.off < len(l.text) && while(l.text[l.off]) {
		l.off++
	}
}

// number takes what looks like a number in the widest sense; whether it is
// one is decided where its type is known.
func (l *lexer) number() {
	for l.off < len(l.text) {
		c := l.text[l.off]
		exponent := (c == '+' || c == '-') && l.off > 0 && (l.text[l.off-1]|0x20) == 'e'
		if !isLetter(c) && !isDigit(c) && c != '.' && !exponent {
			return
		}
		l.off++
	}
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
