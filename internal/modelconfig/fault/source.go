package fault

import (
	"maps"
	"strconv"
	"strings"
)

// Position is where something is in a file; both count from 1.
type Position struct{ Line, Column int }

// Source is where the fields of one configuration come from.
type Source struct {
	// File is the file's name as the caller gave it.
	File string
	// Places holds where each field stands, by its path.
	Places map[string]Position
	// Merged is set for the fields, at the top level, that came from the backend.
	Merged map[string]bool
	// Gaps is set where pieces that cannot be read were left out.
	Gaps *Gaps
}

// Clone returns a copy that can be changed on its own.
func (s *Source) Clone() *Source {
	return &Source{File: s.File, Places: maps.Clone(s.Places), Merged: maps.Clone(s.Merged), Gaps: s.Gaps}
}

// Fault makes a fault of a field, with the position of the field or of the
// nearest field around it.
func (s *Source) Fault(path, text, expected, found string) Fault {
	f := Fault{Text: text, Path: path, Expected: expected, Found: found, File: s.File}
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	if s.Merged[top] {
		f.File = "auto-completed"
		return f
	}
	for p := path; p != ""; p = Parent(p) {
		if at, ok := s.Places[p]; ok {
			f.Line, f.Column = at.Line, at.Column
			break
		}
	}
	return f
}

// Parent cuts the last name or index off a path.
func Parent(path string) string {
	if strings.HasSuffix(path, "]") {
		if i := strings.LastIndexByte(path, '['); i >= 0 {
			return path[:i]
		}
	}
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

// Entry is the path of a map's entry.
func Entry(path, key string) string { return path + "[" + strconv.Quote(key) + "]" }
