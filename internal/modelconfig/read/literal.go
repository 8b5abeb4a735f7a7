package read

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers as the text format has them; those of Go that it has not (1_000, 0b1,
// 0o7) are none.
var (
	integerForm = regexp.MustCompile(`^-?(?:[1-9][0-9]*|0[xX][0-9a-fA-F]+|0[0-7]*)$`)
	floatForm   = regexp.MustCompile(`^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?$`)
)

// floats are the words that stand for numbers, in any case.
var floats = map[string]float64{
	"nan": math.NaN(), "inf": math.Inf(1), "infinity": math.Inf(1), "-inf": math.Inf(-1), "-infinity": math.Inf(-1),
}

// truthWords are the words that stand for booleans.
var truthWords = map[string]bool{"t": true, "true": true, "True": true, "f": false, "false": false, "False": false}

// boolean reads a boolean: a word, or the number 0 or 1.
func boolean(t token) (v, ok bool) {
	switch t.kind {
	case tokenIdent:
		v, ok = truthWords[t.text]
		return v, ok
	case tokenNumber:
		n, err := strconv.ParseUint(t.text, 0, 64)
		return n == 1, err == nil && n <= 1 && integerForm.MatchString(t.text)
	default:
		return false, false
	}
}

// integer reads a number of one of the integer kinds. outOfRange says that it is
// one, of a larger kind.
func integer(kind protoreflect.Kind, t token) (v protoreflect.Value, ok, outOfRange bool) {
	if t.kind != tokenNumber || !integerForm.MatchString(t.text) {
		return v, false, false
	}
	var err error
	var signed int64
	var unsigned uint64
	switch kind {
	case protoreflect.Int32Kind:
		signed, err = strconv.ParseInt(t.text, 0, 32)
		v = protoreflect.ValueOfInt32(int32(signed)) //nolint:gosec // an error where it does not fit
	case protoreflect.Int64Kind:
		signed, err = strconv.ParseInt(t.text, 0, 64)
		v = protoreflect.ValueOfInt64(signed)
	case protoreflect.Uint32Kind:
		unsigned, err = strconv.ParseUint(t.text, 0, 32)
		v = protoreflect.ValueOfUint32(uint32(unsigned)) //nolint:gosec // an error where it does not fit
	case protoreflect.Uint64Kind:
		unsigned, err = strconv.ParseUint(t.text, 0, 64)
		v = protoreflect.ValueOfUint64(unsigned)
	default: // the configuration has no other kinds
		err = strconv.ErrSyntax
	}
	return v, err == nil, errors.Is(err, strconv.ErrRange)
}

// float reads a number with or without a point. One that is too large is infinite.
func float(t token) (v float64, ok bool) {
	switch t.kind {
	case tokenIdent:
		v, ok = floats[strings.ToLower(t.text)]
		return v, ok
	case tokenNumber:
		if !floatForm.MatchString(t.text) {
			return 0, false
		}
		v, err := strconv.ParseFloat(strings.TrimRight(t.text, "fF"), 64)
		return v, err == nil || errors.Is(err, strconv.ErrRange)
	default:
		return 0, false
	}
}

// plainEscapes are the escapes of one character.
var plainEscapes = map[byte]byte{
	'"': '"', '\'': '\'', '\\': '\\', '?': '?',
	'a': '\a', 'b': '\b', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'f': '\f',
}

// unescape returns what stands between the quotes of a string. Where that cannot
// be read it returns the piece that cannot, which begins at the offset bad of the
// string with its quotes.
func unescape(quoted string) (text, piece string, bad int) {
	in := quoted[1 : len(quoted)-1]
	if !strings.ContainsRune(in, '\\') && utf8.ValidString(in) {
		return in, "", 0
	}
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' {
			r, n := utf8.DecodeRuneInString(in[i:])
			if r == utf8.RuneError && n == 1 {
				return "", in[i : i+1], i + 1
			}
			out = append(out, in[i:i+n]...)
			i += n
			continue
		}
		next, n, ok := escape(in[i:])
		if !ok {
			return "", in[i : i+n], i + 1
		}
		out = append(out, next...)
		i += n
	}
	return string(out), "", 0
}

// escape reads the escape that text begins with, of n bytes.
func escape(text string) (value string, n int, ok bool) {
	if len(text) < 2 {
		return "", len(text), false
	}
	switch c := text[1]; {
	case plainEscapes[c] != 0:
		return string([]byte{plainEscapes[c]}), 2, true
	case '0' <= c && c <= '7':
		n = 1 + digits(text[1:], 3, "01234567")
		v, err := strconv.ParseUint(text[1:n], 8, 8)
		return string([]byte{byte(v)}), n, err == nil
	case c == 'x':
		n = 2 + digits(text[2:], 2, hexDigits)
		v, err := strconv.ParseUint(text[2:n], 16, 8)
		return string([]byte{byte(v)}), n, err == nil
	case c == 'u':
		return unicodeEscape(text, 4)
	case c == 'U':
		return unicodeEscape(text, 8)
	default:
		_, size := utf8.DecodeRuneInString(text[1:])
		return "", 1 + size, false
	}
}

const hexDigits = "0123456789abcdefABCDEF"

// unicodeEscape reads \u or \U with so many digits; half of a surrogate pair needs
// the other half behind it, as \u.
func unicodeEscape(text string, width int) (value string, n int, ok bool) {
	have := digits(text[2:], width, hexDigits)
	n = 2 + have
	if have < width {
		return "", n, false
	}
	v, err := strconv.ParseUint(text[2:n], 16, 32)
	r := rune(v) //nolint:gosec // looked at below
	if err != nil || v > unicode.MaxRune {
		return "", n, false
	}
	if utf16.IsSurrogate(r) {
		rest := text[n:]
		if len(rest) < 6 || rest[:2] != `\u` || digits(rest[2:], 4, hexDigits) < 4 {
			return "", n, false
		}
		low, _ := strconv.ParseUint(rest[2:6], 16, 16)
		if r = utf16.DecodeRune(r, rune(low)); r == unicode.ReplacementChar { //nolint:gosec // 16 bits
			return "", n, false
		}
		n += 6
	}
	return string(r), n, true
}

// digits returns how many of the first bytes of text, most at the most, are in set.
func digits(text string, most int, set string) int {
	n := 0
	for n < min(most, len(text)) && strings.IndexByte(set, text[n]) >= 0 {
		n++
	}
	return n
}
