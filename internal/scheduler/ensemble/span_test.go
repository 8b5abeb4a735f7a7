package ensemble

import (
	"fmt"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// Who looks at slow requests sees what each step took, the failed one too; nobody else pays for it.
func TestSpansOfSteps(t *testing.T) {
	for name, c := range map[string]struct {
		second func(*infer.Request) error
		want   string
	}{
		"both answer": {echo, "[a failed false, b failed false]"},
		"the second fails": {func(r *infer.Request) error {
			r.Fail(backend.Errorf(backend.Internal, "no"), infer.Backend)
			return nil
		}, "[a failed false, b failed true]"},
	} {
		h := newHost(t)
		h.model("a IN:FP32[-1] -> OUT:FP32[-1]", echo)
		h.model("b IN:FP32[-1] -> OUT:FP32[-1]", c.second)
		s := h.scheduler(0, one, "a IN=X -> OUT=between", "b IN=between -> OUT=Y")
		for _, watched := range []bool{true, false} {
			var a answers
			r, b := request(t.Context(), "1234", &a)
			if watched {
				r.Spans = &infer.Spans{}
			}
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			settled(t, h, &a, b)
			if !watched {
				if r.Spans != nil {
					t.Error("spans that nobody wants")
				}
				continue
			}
			got := "["
			for i, p := range r.Spans.All {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%s failed %v", p.Model, p.Failed)
				if p.Start < r.Times.Start || p.End < p.Start || r.Times.End < p.End {
					t.Errorf("%s: the step from %d to %d is not within the request from %d to %d", name, p.Start, p.End, r.Times.Start, r.Times.End)
				}
			}
			if got += "]"; got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
