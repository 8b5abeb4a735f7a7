package fault

import "strings"

// Gaps are the fields whose values are not the user's, because what the user
// wrote cannot be read. Faults that follow from that are none of their own: a check
// that looks at other fields than the one it complains of asks for those.
type Gaps struct {
	// paths are the fields themselves.
	paths map[string]bool
	// around are the messages that lack one of their fields.
	around map[string]bool
}

// NewGaps returns none.
func NewGaps() *Gaps { return &Gaps{paths: map[string]bool{}, around: map[string]bool{}} }

// Add notes a field.
func (g *Gaps) Add(path string) { g.paths[path] = true }

// Missing notes that a field was meant by an unknown one of the message at
// parent.
func (g *Gaps) Missing(parent, field string) {
	if parent != "" {
		g.around[parent] = true
		field = parent + "." + field
	}
	g.paths[field] = true
}

// Unread reports whether one of the fields is not known, since it, what it is part of
// or, for a message, one of its own fields could not be read.
func (s *Source) Unread(paths ...string) bool {
	if s.Gaps == nil {
		return false
	}
	for _, path := range paths {
		if s.Gaps.around[path] {
			return true
		}
		for p := path; p != ""; p = Parent(p) {
			if s.Gaps.paths[p] {
				return true
			}
		}
	}
	return false
}

// UnreadIn is Unread for all that stands in a field, however deep.
func (s *Source) UnreadIn(path string) bool {
	if s.Gaps == nil {
		return false
	}
	for gap := range s.Gaps.paths {
		if rest, ok := strings.CutPrefix(gap, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return s.Unread(path)
}
