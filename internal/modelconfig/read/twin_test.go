package read

import (
	"strings"
	"testing"
)

// TestSameAsTwin puts all forms of values in the place of each value of real
// configurations: the scanner and protobuf's parser read the same.
func TestSameAsTwin(t *testing.T) {
	forms := []string{
		"0", "00", "-0", "1", "017", "09", "0x1F", "0X1", "0x", "1_000", "0b1", "0o7", "1.5", "1.", ".5", ".", "1f", "1.5F", "0xf", "1e5",
		"1E-5f", "1e", "1e999",
		"-1", "- 1", "+1", "2147483648", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
		"t", "True", "TRUE", "f", "inf", "-Infinity", "NaN", "-nan", "TYPE_FP32",
		`"a"`, `'a'`, `"a" 'b'`, `"\xc3" "\xa9"`, `"\xc3"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\U0001F600"`, `"\U00110000"`, `"\u12"`,
		`"\101\x41\?"`, `"\400"`, `"\x"`, `"\q"`, `"\`, `"`,
		"\"\xff\"", `"\"'"`, "{}", "<>", "[]", "[1, 2]", "[1,]", "[,]", "[{}]", "{ key: 'a' }", "{ value { string_value: 'b' } }",
	}
	// Between them, these have all types of fields.
	for _, file := range []string{"floats", "misc", "io_full", "warmup"} {
		text := examples(t, file)[file]
		words := lexer{text: text, line: 1}
		for w := words.next(); w.kind != tokenEOF; w = words.next() {
			if after := strings.TrimLeft(text[w.off+len(w.text):], " "); w.kind == tokenPunct || strings.HasPrefix(after, ":") ||
				strings.HasPrefix(after, "{") {
				continue // not where a value stands
			}
			for _, form := range forms {
				given := []byte(text[:w.off] + form + text[w.off+len(w.text):])
				sameAsTwin(t, given)
				if t.Failed() {
					t.Fatalf("%s at %v of %s", form, w.pos, file)
				}
			}
		}
	}
}
