package read

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// lenient rewrites what protobuf's parser of JSON takes beyond JSON into JSON:
// keys without quotes, texts in single quotes, a comma after the last field or
// element, control characters in texts, escapes that JSON does not have and
// numbers that end with a point. Load requests for Triton are written by hand
// and have some of it. Whatever else is wrong stays as it is, for the decoder to
// find.
type lenient struct {
	in, out []byte
	at      []int  // where each byte of out comes from
	last    byte   // the last byte outside of texts that is no blank
	open    []byte // the objects and lists around it
}

// decodeLenient is decodeTree for a text with such things in it. Of a syntax
// error it tells the offset in data.
func decodeLenient(data []byte) (any, error) {
	l := lenient{in: data, out: make([]byte, 0, len(data)+len(data)/8), at: make([]int, 0, len(data)+len(data)/8)}
	l.rewrite()
	tree, err := decodeTree(l.out)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) && len(l.at) > 0 {
		i := min(max(0, int(syntax.Offset)-1), len(l.at)-1)
		moved := *syntax
		moved.Offset = int64(l.at[i]) + 1
		return nil, &moved
	}
	return tree, err
}

func (l *lenient) rewrite() {
	for i := 0; i < len(l.in); {
		switch c := l.in[i]; {
		case c == '"' || c == '\'':
			i = l.text(i)
			l.last = '"'
		case (l.last == '{' || l.last == ',') && len(l.open) > 0 && l.open[len(l.open)-1] == '{' && isKeyStart(c):
			i = l.key(i)
			l.last = '"'
		case c == ',' && l.last != ',' && l.last != '{' && l.last != '[' && l.closes(i+1):
			i++
		case c == '.' && '0' <= l.last && l.last <= '9' && (i+1 == len(l.in) || l.in[i+1] < '0' || l.in[i+1] > '9') && !l.exponent(i+1):
			i++
		default:
			l.put(i, c)
			l.note(c)
			i++
		}
	}
}

// note keeps last and open.
func (l *lenient) note(c byte) {
	switch c {
	case ' ', '\t', '\n', '\r':
		return
	case '{', '[':
		l.open = append(l.open, c)
	case '}', ']':
		if len(l.open) > 0 {
			l.open = l.open[:len(l.open)-1]
		}
	}
	l.last = c
}

func (l *lenient) put(i int, bytes ...byte) {
	for _, c := range bytes {
		l.out, l.at = append(l.out, c), append(l.at, i)
	}
}

// text rewrites the text that begins at i, and returns where it ends.
func (l *lenient) text(i int) int {
	quote := l.in[i]
	l.put(i, '"')
	for i++; i < len(l.in); i++ {
		switch c := l.in[i]; {
		case c == quote:
			l.put(i, '"')
			return i + 1
		case c == '"':
			l.put(i, '\\', '"')
		case c < ' ':
			l.control(i, c)
		case c != '\\' || i+1 == len(l.in):
			l.put(i, c)
		default:
			switch next := l.in[i+1]; next {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u':
				l.put(i, c, next)
				i++
			case 'v':
				l.control(i, '\v')
				i++
			default: // the backslash means nothing; what follows may take several bytes
				if next < ' ' {
					l.control(i, next)
					i++
				} else if next < utf8.RuneSelf {
					l.put(i, next)
					i++
				}
			}
		}
	}
	return i
}

func (l *lenient) control(i int, c byte) {
	const digits = "0123456789abcdef"
	l.put(i, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// key puts quotes around the name at i, and returns where it ends.
func (l *lenient) key(i int) int {
	l.put(i, '"')
	for ; i < len(l.in) && (isKeyStart(l.in[i]) || '0' <= l.in[i] && l.in[i] <= '9'); i++ {
		l.put(i, l.in[i])
	}
	l.put(i-1, '"')
	return i
}

func isKeyStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}

// closes reports whether an object or a list ends at i, blanks aside.
func (l *lenient) closes(i int) bool {
	for ; i < len(l.in); i++ {
		switch l.in[i] {
		case ' ', '\t', '\n', '\r':
		case '}', ']':
			return true
		default:
			return false
		}
	}
	return false
}

func (l *lenient) exponent(i int) bool { return i < len(l.in) && (l.in[i] == 'e' || l.in[i] == 'E') }
