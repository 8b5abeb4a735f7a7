package logging

import (
	"log/slog"
	"strings"
	"unicode/utf8"
)

// Block is an attribute whose text has lines of its own, such as a traceback. The
// formats of text show it below their line, indented; JSON as any other string.
func Block(key, text string) slog.Attr { return slog.Any(key, block(text)) }

type block string

// blockOf returns the block that an attribute is. Other kinds of values are not
// made an interface's to find out.
func blockOf(a slog.Attr) (t block, ok bool) {
	if a.Value.Kind() == slog.KindAny {
		t, ok = a.Value.Any().(block)
	}
	return t, ok
}

// String returns the text as it is.
func (t block) String() string { return string(t) }

const (
	// No line of the log begins like this: what stands in a block cannot pass for one.
	indent = "    "
	// maxBlock is how many bytes of a block are shown: its beginning and its end.
	maxBlock = 64 << 10
)

// appendBlock appends the lines of a block. What a terminal would obey, or a reader
// of lines would take for the end of one, is escaped.
func appendBlock(b []byte, text string) []byte {
	text = strings.TrimRight(text, "\r\n")
	if len(text) > maxBlock {
		text = text[:maxBlock/2] + "\n[...]\n" + text[len(text)-maxBlock/2:]
	}
	for line := range strings.SplitSeq(text, "\n") {
		b = append(b, indent...)
		for _, r := range strings.TrimSuffix(line, "\r") {
			switch {
			case r == '\t' || r >= ' ' && r < 0x7f:
				b = append(b, byte(r))
			case r < 0xa0 || r == '\u2028' || r == '\u2029':
				b = append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			default:
				b = utf8.AppendRune(b, r)
			}
		}
		b = append(b, '\n')
	}
	return b
}
