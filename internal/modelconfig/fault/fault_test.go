package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestError(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{Fault{Text: "only Triton's"}, "only Triton's"},
		{Fault{File: "f", Line: 2, Column: 3, Path: "a.b", Expected: "x", Found: "y"}, "f:2:3, field a.b: expected x, found y"},
		{
			Fault{Text: "text", File: "f", Line: 2, Column: 3, Path: "a", Expected: "x", Found: "y", Hint: "do z"},
			"text (f:2, field a: expected x, found y; do z)",
		},
		{Fault{File: "f", Hint: "do z"}, "f: do z"},
		{Fault{Path: "a", Found: "y"}, "field a: found y"},
		{Fault{Hint: "do z"}, "do z"},
	} {
		if got := c.fault.Error(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got, want := Quote(strings.Repeat("é", 40)), `"`+strings.Repeat("é", 30)+`..."`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestList(t *testing.T) {
	var l List
	if l.Err() != nil || Of(errors.New("x")) != nil {
		t.Error("an error without a fault")
	}
	for range 2 * Max {
		l.Add(Fault{Text: "x"})
	}
	if len(l) != Max {
		t.Errorf("%d faults, want %d", len(l), Max)
	}
	l = nil
	l.Add(Fault{Text: "none", Code: backend.Unsupported})
	l.Add(Fault{Text: "third", Line: 2, Column: 1})
	l.Add(Fault{Text: "second", Line: 1, Column: 5})
	l.TakeNew(List{{Text: "first", Line: 1, Column: 2, Code: backend.InvalidArg}, l[1]})
	var e *backend.Error
	if !errors.As(l.Err(), &e) || e.Code != backend.Unsupported {
		t.Errorf("got %v", e)
	}
	l.SortByPosition()
	if got := strings.ReplaceAll(l.Error(), "\n", " "); got != "first (:1) second (:1) third (:2) none" {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(Of(l.Err()), l) {
		t.Error("the error is not the list")
	}
}

func TestSource(t *testing.T) {
	s := &Source{
		File: "f", Places: map[string]Position{"input": {3, 1}, "input[1]": {4, 5}, "name": {1, 1}},
		Merged: map[string]bool{"output": true},
	}
	for path, want := range map[string]string{
		"name": "f:1", "input[1].dims[0]": "f:4", "input[0].name": "f:3", "backend": "f", "output[0].name": "auto-completed",
	} {
		if f := s.Fault(path, "t", "", ""); f.position() != want {
			t.Errorf("%s: got %s, want %s", path, f.position(), want)
		}
	}
}

func TestUnread(t *testing.T) {
	s := &Source{}
	if s.Unread("a") || s.UnreadIn("a") {
		t.Error("unread without a gap")
	}
	s.Gaps = NewGaps()
	s.Gaps.Add("a.b[1]")
	s.Gaps.Missing(Entry("m", "k.]"), "c")
	s.Gaps.Missing("", "top")
	for _, c := range []struct {
		path       string
		unread, in bool
	}{
		{"a", false, true},
		{"a.b", false, true},
		{"a.b[1]", true, true},
		{"a.b[1].c", true, true},
		{"a.b[10]", false, false},
		{"a.bc", false, false},
		{"", false, false},
		{`m["k.]"]`, true, true}, // it lacks a field
		{`m["k.]"].c`, true, true},
		{`m["k.]"].d`, false, false},
		{"m", false, true},
		{"top", true, true},
	} {
		if got := s.Unread(c.path); got != c.unread {
			t.Errorf("Unread(%q) = %v", c.path, got)
		}
		if c.path != "" && s.UnreadIn(c.path) != c.in {
			t.Errorf("UnreadIn(%q) = %v", c.path, !c.in)
		}
	}
}
