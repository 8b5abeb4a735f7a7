package linelog

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", lineLimit+10)
	for _, c := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"whole", []string{"a\nb\n"}, []string{"a", "b"}},
		{"parts", []string{"a", "b\nc", "", "d"}, []string{"ab", "cd"}},
		{"carriage return and broken text", []string{"a\r\n\xff\n"}, []string{"a", "\uFFFD"}},
		{"long", []string{long + "\n"}, []string{long[:lineLimit], long[lineLimit:]}},
		{"long in parts", []string{long[:100], long[100:], "\nz"}, []string{long[:lineLimit], long[lineLimit:], "z"}},
		{"empty lines", []string{"\n\na\n"}, []string{"", "", "a"}},
	} {
		var buf bytes.Buffer
		l := &Log{logger: slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key != slog.MessageKey {
				return slog.Attr{}
			}
			a.Value = slog.StringValue(a.Value.String() + "|")
			return a
		}}))}
		l.Copy(&stringsReader{c.writes})
		var want strings.Builder
		for _, w := range c.want {
			want.WriteString("msg=" + w + "|\n")
		}
		if got := strings.ReplaceAll(buf.String(), "\"", ""); got != want.String() {
			t.Errorf("%s: got %.80q, want %.80q", c.name, got, want.String())
		}
		if len(l.last()) > tailBytes+8 {
			t.Errorf("%s: %d bytes remembered", c.name, len(l.last()))
		}
	}
}

// stringsReader gives one string a Read.
type stringsReader struct{ left []string }

func (r *stringsReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left[0])
	if r.left[0] = r.left[0][n:]; r.left[0] == "" {
		r.left = r.left[1:]
	}
	return n, nil
}
