package uses

import (
	"strings"
	"testing"
)

// parse reads a graph such as "e: a b; f: e".
func parse(text string) Graph {
	g := Graph{}
	for rule := range strings.SplitSeq(text, ";") {
		if name, parts, ok := strings.Cut(strings.TrimSpace(rule), ":"); ok {
			g[name] = strings.Fields(parts)
		}
	}
	return g
}

func TestGraph(t *testing.T) {
	for name, tc := range map[string]struct {
		graph string
		of    string
		cycle string // path
		users string
		only  string // exclusive
	}{
		"alone":          {graph: "", of: "a"},
		"part":           {graph: "e: a b", of: "a", users: "e"},
		"ensemble":       {graph: "e: a b", of: "e", only: "a b"},
		"nested":         {graph: "f: e c; e: a b", of: "f", only: "a b c e"},
		"nested part":    {graph: "f: e c; e: a b", of: "a", users: "e f"},
		"shared part":    {graph: "e: a b; f: b", of: "e", only: "a"},
		"shared deeper":  {graph: "e: g; g: b; f: b", of: "e", only: "g"},
		"self":           {graph: "e: e", of: "e", cycle: "e e", users: "e"},
		"two":            {graph: "e: f; f: e", of: "e", cycle: "e f e", users: "e f", only: "f"},
		"cycle further":  {graph: "x: e; e: f; f: e", of: "x", cycle: "e f e", only: ""},
		"diamond":        {graph: "e: f g; f: a; g: a", of: "e", only: "a f g"},
		"diamond's foot": {graph: "e: f g; f: a; g: a", of: "a", users: "e f g"},
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(tc.graph)
			if got := strings.Join(g.Cycle(tc.of), " "); got != tc.cycle {
				t.Errorf("cycle %q, want %q", got, tc.cycle)
			}
			if tc.cycle != "" {
				return
			}
			if got := strings.Join(g.Users(tc.of), " "); got != tc.users {
				t.Errorf("users %q, want %q", got, tc.users)
			}
			if got := strings.Join(g.Exclusive(tc.of, func(string) bool { return true }), " "); got != tc.only {
				t.Errorf("exclusive %q, want %q", got, tc.only)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct{ graph, names, want string }{
		"none":         {"", "", ""},
		"no ensembles": {"", "b a", "b a"},
		"parts first":  {"e: a b", "e a b", "a b | e"},
		"nested":       {"f: e; e: a", "f e a c", "a c | e | f"},
		"not ours":     {"e: a b", "e a", "a | e"},
		"cycle last":   {"e: f; f: e; g: a", "e f g a", "a | g | e f"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, level := range parse(tc.graph).Order(strings.Fields(tc.names)) {
				got = append(got, strings.Join(level, " "))
			}
			if text := strings.Join(got, " | "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}
