package ensemble

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// gone says what has gone along each edge.
func gone(s *Scheduler) string {
	var words []string
	for _, e := range s.Edges() {
		words = append(words, fmt.Sprintf("%d>%d %s %d", e.From, e.To, e.Tensor, e.Count))
	}
	return strings.Join(words, ", ")
}

// TestEdgesBehindADecoupledStep: each response of the step counts.
func TestEdgesBehindADecoupledStep(t *testing.T) {
	h := newHost(t)
	sent := 0
	h.model("many IN:FP32[-1] -> OUT:FP32[-1] decoupled", produce(5, &sent))
	h.model("one IN:FP32[-1] -> OUT:FP32[-1]", echo)
	s := h.scheduler(0, one, "many IN=X -> OUT=t", "one IN=t -> OUT=Y")
	a := &answers{}
	r, b := request(context.Background(), "data", a)
	if err := s.Enqueue(r); err != nil {
		t.Fatal(err)
	}
	settled(t, h, a, b)
	if got, want := gone(s), "-1>0 X 1, 0>1 t 5, 1>-1 Y 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEdges: each edge counts what goes along it, not what its steps do; what is not
// asked for, or fails before, is not counted.
func TestEdges(t *testing.T) {
	h := newHost(t)
	h.model("m IN:FP32[-1] -> OUT:FP32[-1]", echo)
	h.model("n IN:FP32[-1] -> OUT:FP32[-1]", echo)
	s := h.scheduler(0, "e X:FP32[-1] -> Y:FP32[-1];Z:FP32[-1]", "m IN=X -> OUT=T", "n IN=T -> OUT=Y", "m IN=T -> OUT=Z")
	for i := range 3 {
		a := &answers{}
		r, b := request(context.Background(), "x", a)
		if r.Requested = []string{"Y", "Z"}; i == 0 {
			r.Requested = r.Requested[:1]
		}
		if err := s.Enqueue(r); err != nil {
			t.Fatal(err)
		}
		settled(t, h, a, b)
	}
	if got, want := gone(s), "-1>0 X 3, 0>1 T 3, 0>2 T 2, 1>-1 Y 3, 2>-1 Z 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
