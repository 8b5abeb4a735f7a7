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

// TestWhyGoEndedIt: the stacks of a crash are longer than what is kept of the output, and its reason stands before them.
func TestWhyGoEndedIt(t *testing.T) {
	stacks := strings.Repeat("goroutine 1 [running]:\nmain.main()\n", 20)
	for _, c := range []struct{ name, output, want string }{
		{"no crash", "a\nb\nc\nd\ne\nf\n", "b\nc\nd\ne\nf"},
		{"in the tail", "a\npanic: no\n\nb\n", "a\npanic: no\nb"},
		{"stacks", "a\nfatal error: out of memory\n" + stacks, "fatal error: out of memory\n…\nmain.main()\n"},
		{"the last of two", "panic: one\nfatal error: two\n" + stacks, "fatal error: two\n…\nmain.main()\n"},
		{"long ago", "panic: caught\n" + strings.Repeat("x\n", crashLines+1), "x\nx\nx\nx\nx"},
		{"bounded", "panic: " + strings.Repeat("é", tailBytes) + "\n" + strings.Repeat(strings.Repeat("y", 400)+"\n", 5), "panic: é"},
	} {
		l := New(nil)
		l.write([]byte(c.output))
		if got := l.last(); !strings.HasPrefix(got, c.want) || len(got) > tailBytes+len("…") {
			t.Errorf("%s: %d bytes: got %q, want %q", c.name, len(got), got, c.want)
		}
	}
}
