package deadlock

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/ratelimit"
)

// parseEdges reads "a/0 > b" for a call of instance 0 of model a to model b, or
// "a/0 > b,c" for one to an ensemble of them. Models have as many instances as
// of says, else one. "a/0 +2R > b -1R" says that the instance holds two units of
// resource R and b needs one, of three.
func parseEdges(lines []string, of map[string]int) []edge {
	var all []edge
	for i, line := range lines {
		from, to, _ := strings.Cut(line, " > ")
		claims := func(words []string) (all []ratelimit.Claim) {
			for _, w := range words {
				units, _ := strconv.Atoi(w[1:2])
				all = append(all, ratelimit.Claim{Resource: ratelimit.Resource{Name: w[2:]}, Units: int64(units), Of: 3})
			}
			return all
		}
		left, right := strings.Fields(from), strings.Fields(to)
		from, to = left[0], right[0]
		model, instance, _ := strings.Cut(from, "/")
		e := edge{id: uint64(i + 1), caller: Node{model, 1}, instance: instance, of: max(1, of[model])}
		e.holds, e.needs = claims(left[1:]), claims(right[1:])
		for callee := range strings.SplitSeq(to, ",") {
			e.callees = append(e.callees, Node{callee, 1})
		}
		all = append(all, e)
	}
	return all
}

func TestCircle(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls []string
		of    map[string]int
		stuck []int // the call to end
	}{
		{"one instance calls itself", []string{"a/0 > a"}, nil, []int{0}},
		{"a second instance is free", []string{"a/0 > a"}, map[string]int{"a": 2}, nil},
		{"both instances call", []string{"a/0 > a", "a/1 > a"}, map[string]int{"a": 2}, []int{1}},
		{"two that call each other", []string{"a/0 > b", "b/0 > a"}, nil, []int{1}},
		{"the callee works", []string{"a/0 > b"}, nil, nil},
		{"the end of a chain works", []string{"a/0 > b", "b/0 > c"}, nil, nil},
		{"a circle and one that waits for it", []string{"a/0 > b", "b/0 > c", "c/0 > b"}, nil, []int{2}},
		{"one instance of the callee works", []string{"a/0 > b", "b/0 > a"}, map[string]int{"b": 2}, nil},
		{"through an ensemble", []string{"a/0 > pre,a"}, nil, []int{0}},
		{"threads of one instance", []string{"a/0 > b", "a/0 > a"}, nil, []int{1}},
		{"holds what its callee needs", []string{"a/0 +3R > b -1R"}, map[string]int{"a": 2}, []int{0}},
		{"enough is left", []string{"a/0 +2R > b -1R"}, nil, nil},
		{"another resource", []string{"a/0 +3R > b -1S"}, nil, nil},
		{"several hold it together", []string{"a/0 +2R > b -2R", "c/0 +1R > b -2R"}, map[string]int{"a": 2, "c": 2}, []int{1}},
		{"one of them will go on", []string{"a/0 +2R > b -1R", "c/0 +1R > d"}, nil, nil},
		{"one instance holds it once", []string{"a/0 +2R > b -1R", "a/0 +2R > b -1R"}, nil, nil},
		{"through a model without needs", []string{"a/0 +3R > b", "b/0 > c -1R"}, nil, []int{1}},
		{"a bystander of a model circle", []string{"b/0 > c", "c/0 > b", "a/0 > b"}, map[string]int{"a": 2}, []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			edges := parseEdges(c.calls, c.of)
			var stuck []int
			for i, e := range edges {
				state := circle(edges, e)
				if state != 0 {
					stuck = append(stuck, i)
				}
				backwards := slices.Clone(edges)
				slices.Reverse(backwards)
				if circle(backwards, e) != state {
					t.Errorf("call %d: the state depends on the order of the calls", i)
				}
			}
			if !slices.Equal(stuck, c.stuck) {
				t.Errorf("got %v, want %v", stuck, c.stuck)
			}
		})
	}
}

// TestCircleMoves: the state is another one when a call of the circle has ended
// and another has begun.
func TestCircleMoves(t *testing.T) {
	seen := map[uint64]bool{}
	for id := range uint64(1000) {
		e := edge{id: id + 1, caller: Node{"a", 1}, instance: strconv.Itoa(0), of: 1, callees: []Node{{"a", 1}}}
		if state := circle([]edge{e}, e); state == 0 || seen[state] {
			t.Fatalf("state %d of call %d", state, id)
		} else {
			seen[state] = true
		}
	}
}
