package openai

import (
	"bytes"
	"strconv"
)

// maxDepth is how deep the values of a body may lie in each other. Models read messages
// and parameters by parsers of their own: that of Python fails at some 1,000.
const maxDepth = 256

// depth returns how deep the values of JSON lie in each other.
func depth(text []byte) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '[' || c == '{':
			now++
			most = max(most, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return most
}

// escapeBytes is the length of an escape of one unit of UTF-16, such as \ud83e.
const escapeBytes = 6

// mendHalves overwrites escapes of half a character, which programs write that cut their
// texts between two units of UTF-16, with that of U+FFFD. It is what package
// encoding/json makes of them; a model that gets the JSON as it came may make an error
// of its own.
func mendHalves(text []byte) {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); {
		length := 2
		switch u := unit(text[i:]); {
		case u >= 0xd800 && u < 0xdc00:
			length = escapeBytes
			if low := unit(text[i+escapeBytes:]); low >= 0xdc00 && low < 0xe000 {
				length = 2 * escapeBytes
				break
			}
			copy(text[i:], `\ufffd`)
		case u >= 0xdc00 && u < 0xe000:
			length = escapeBytes
			copy(text[i:], `\ufffd`)
		}
		if i += length; i >= len(text) {
			return
		}
		next := bytes.IndexByte(text[i:], '\\')
		if next < 0 {
			return
		}
		i += next
	}
}

// unit returns the unit of UTF-16 whose escape b begins with, or -1.
func unit(b []byte) int64 {
	if len(b) < escapeBytes || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	u, err := strconv.ParseUint(string(b[2:escapeBytes]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(u)
}
