package logging

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func open(t *testing.T, s Settings) (*Log, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	l, err := Open(s, &out)
	if err != nil {
		t.Fatal(err)
	}
	return l, &out
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format, want string
	}{
		{FormatDefault, `^W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ logging_test\.go:\d+\] "it \\"is\\"\\nso model=m n=3 text=\\"a b\\""\n$`},
		{FormatISO8601, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ W \d+ logging_test\.go:\d+\] "it \\"is\\"\\nso model=m n=3 text=\\"a b\\""\n$`},
	} {
		s := DefaultSettings()
		s.Format = c.format
		l, out := open(t, s)
		l.Logger().With("model", "m").Warn("it \"is\"\nso", "n", 3, "text", "a b")
		if !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("%s: got %q\nwant %s", c.format, out, c.want)
		}
	}
}

func TestJSONLinesAreJSON(t *testing.T) {
	s := DefaultSettings()
	s.Format = FormatJSON
	l, out := open(t, s)
	l.Logger().WithGroup("g").Error("bad \x01\xff", "n", 3, "ok", true, "s", "é\"")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if got["level"] != "error" || got["g.n"] != 3.0 || got["g.ok"] != true || got["g.s"] != "é\"" || got["msg"] != "bad \x01\ufffd" {
		t.Errorf("got %v", got)
	}
}

func TestSourceReplacesTheCaller(t *testing.T) {
	l, out := open(t, DefaultSettings())
	l.Logger().Info("hi", Source("/models/m/1/model.py", 7))
	if !strings.Contains(out.String(), ` model.py:7] "hi"`) {
		t.Errorf("got %q", out)
	}
}

func TestLevelsChangeAtRunTime(t *testing.T) {
	l, out := open(t, DefaultSettings())
	log := l.Logger()
	said := func() string {
		out.Reset()
		for _, level := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, Verbose(1), Verbose(2)} {
			log.Log(t.Context(), level, "x")
		}
		letters := ""
		for line := range strings.Lines(out.String()) {
			letters += line[:1]
		}
		return letters
	}
	if got := said(); got != "EWI" {
		t.Errorf("default: %s", got)
	}
	s := l.Settings()
	s.Info, s.Verbose = false, 1
	if err := l.Set(s); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "EWI" { // the I is the verbose line
		t.Errorf("verbose 1 without info: %s", got)
	}
	s.Verbose, s.Warning = 2, false
	if err := l.Set(s); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "EII" {
		t.Errorf("verbose 2 without info, warning: %s", got)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	l, _ := open(t, DefaultSettings())
	if err := l.Set(Settings{Format: "zz"}); err == nil || err.Error() != "invalid argument for log_format, got: zz" {
		t.Errorf("got %v", err)
	}
	if l.Settings() != DefaultSettings() {
		t.Error("a refused change has changed something")
	}
}

func TestFileIsAppendedTo(t *testing.T) {
	s := DefaultSettings()
	s.File = filepath.Join(t.TempDir(), "log")
	for range 2 {
		l, err := Open(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Logger().Info("line")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := os.ReadFile(s.File)
	if n := bytes.Count(b, []byte("\n")); n != 2 {
		t.Errorf("%d lines, want 2: %q", n, b)
	}
	s.File = filepath.Join(t.TempDir(), "no", "such", "dir")
	if _, err := Open(s, nil); err == nil {
		t.Error("no error for a file that cannot be opened")
	}
}

// A block stands below its line, where nothing in it can pass for a line of the
// log, change the terminal or end the line of JSON.
func TestBlocks(t *testing.T) {
	text := "Traceback:\r\n  File \"m.py\"\n\tx\x1b[2J\u0085é\u2028\xff\nE1122 05:27:49.123456 4711 forged.go:1] \"boo\"\n"
	want := "    Traceback:\n      File \"m.py\"\n    \tx\\u001B[2J\\u0085é\\u2028\ufffd\n    E1122 05:27:49.123456 4711 forged.go:1] " +
		"\"boo\"\n"
	for _, format := range []string{FormatDefault, FormatISO8601, FormatJSON} {
		s := DefaultSettings()
		s.Format = format
		l, out := open(t, s)
		l.Logger().With("model", "m").Error("it failed", Block("traceback", text), slog.String("error", "a\nb"))
		head, rest, _ := strings.Cut(out.String(), "\n")
		if format == FormatJSON {
			var got map[string]any
			if err := json.Unmarshal([]byte(head), &got); err != nil || rest != "" || got["traceback"] != strings.ToValidUTF8(text, "\ufffd") {
				t.Errorf("%v: %q", err, out)
			}
			continue
		}
		if !strings.HasSuffix(head, `"it failed model=m error=\"a\\nb\""`) || rest != want {
			t.Errorf("%s: got %q", format, out)
		}
	}
	l, out := open(t, DefaultSettings())
	l.Logger().Error("long", Block("traceback", strings.Repeat("x", 10<<20)+"\nthe end"))
	if n := out.Len(); n > maxBlock+1000 || !strings.HasSuffix(out.String(), "\n    the end\n") {
		t.Errorf("%d bytes", n)
	}
}

func TestTail(t *testing.T) {
	l, err := Open(DefaultSettings(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	l.Logger().Info("before")
	if got := l.Tail(0); got != nil {
		t.Errorf("kept without being asked: %v", got)
	}
	l.KeepTail()
	for i := range mostLines + 5 {
		l.Logger().Warn("line", "number", i)
	}
	all := l.Tail(0)
	if len(all) != mostLines || all[0].Number != 6 || !strings.Contains(all[0].Text, "number=5") || all[0].Level != slog.LevelWarn {
		t.Errorf("%d lines, the first %+v", len(all), all[0])
	}
	if newer := l.Tail(all[len(all)-2].Number); len(newer) != 1 || newer[0] != all[len(all)-1] {
		t.Errorf("newer than the last but one: %+v", newer)
	}
	l.Logger().Info("long", "text", strings.Repeat("x", 3*mostLine))
	if got := l.Tail(mostLines + 5); len(got) != 1 || len(got[0].Text) != mostLine {
		t.Errorf("a long line: %d of them", len(got))
	}
}
