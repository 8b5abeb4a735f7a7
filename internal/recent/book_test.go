package recent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// ended is a request that took so long, with an error or without.
func ended(took time.Duration, err error) *infer.Request {
	r := infer.New(infer.NewSingle(), nil)
	r.ModelName, r.ModelVersion = "m", 1
	r.Times.Start = backend.Now() - int64(took)
	r.Times.Queue = r.Times.Start
	r.Times.ComputeStart = r.Times.Start + int64(took)/2
	if err != nil {
		r.Fail(err, infer.Backend)
	} else {
		_ = r.Respond(nil, true)
	}
	r.Times.End = r.Times.Start + int64(took)
	return r
}

func TestSlowestWhileWatched(t *testing.T) {
	b := New()
	b.Ended(ended(time.Hour, nil))
	if got := b.Slow(); len(got) != 0 {
		t.Errorf("kept without a watcher: %v", got)
	}
	stop := b.Watch()
	for i := range 3 * mostSlow {
		b.Ended(ended(time.Duration(i+1)*time.Millisecond, nil))
	}
	slow := b.Slow()
	if len(slow) != mostSlow || slow[0].Took != 3*mostSlow*time.Millisecond || slow[mostSlow-1].Took != (2*mostSlow+1)*time.Millisecond {
		t.Errorf("%d are kept, from %v to %v", len(slow), slow[0].Took, slow[len(slow)-1].Took)
	}
	if p := slow[0].Phases; p.Queue != slow[0].Took/2 || p.Infer != slow[0].Took/2 {
		t.Errorf("phases of the slowest: %+v", p)
	}
	stop()
	stop()
	b.Ended(ended(time.Hour, nil))
	if b.Slow()[0].Took == time.Hour {
		t.Error("kept after the last watcher has gone")
	}
}

func TestFailuresAreBounded(t *testing.T) {
	b := New()
	for i := range mostFailures + 10 {
		b.failed.Store(0) // as if time had passed
		b.Ended(ended(time.Millisecond, fmt.Errorf("failure %d", i)))
	}
	all, skipped := b.Failures(0)
	if len(all) != mostFailures || skipped != 0 || all[0].Error != "failure 10" ||
		all[len(all)-1].Error != fmt.Sprintf("failure %d", mostFailures+9) {
		t.Errorf("%d failures from %q to %q, %d skipped", len(all), all[0].Error, all[len(all)-1].Error, skipped)
	}
	if newer, _ := b.Failures(all[len(all)-2].Number); len(newer) != 1 {
		t.Errorf("%d are newer than the last but one", len(newer))
	}
	b.failed.Store(backend.Now() + int64(time.Hour))
	b.Refused(ended(0, nil), errors.New("one too many"))
	if all, skipped := b.Failures(0); len(all) != mostFailures || skipped != 1 {
		t.Errorf("a failure at once: %d kept, %d skipped", len(all), skipped)
	}
}

// Steps stand in the order of their begins, with those of an ensemble within an ensemble, and are bounded.
func TestStepsOfAnEnsemble(t *testing.T) {
	b := New()
	if b.Watched() {
		t.Error("watched by nobody")
	}
	defer b.Watch()()
	if !b.Watched() {
		t.Error("not watched")
	}
	r := ended(10*time.Millisecond, nil)
	at := func(model string, from, to int64) infer.Span {
		begin := r.Times.Start
		return infer.Span{Model: model, Version: 1, Start: begin + from, End: begin + to, Phases: [4]int64{1, 2, to - from - 3, 0}}
	}
	outer := at("outer", 100, 500)
	outer.Inside = &infer.Spans{}
	outer.Inside.Add(at("inner", 200, 300))
	r.Spans = &infer.Spans{Steps: true}
	r.Spans.Add(at("late", 600, 900))
	r.Spans.Add(outer)
	for range 100 {
		r.Spans.Add(at("more", 1000, 1100))
	}
	b.Ended(r)
	got := b.Slow()[0]
	if len(got.Steps) != 63 || got.Left != 39 { // and one inside
		t.Errorf("%d steps, %d left", len(got.Steps), got.Left)
	}
	first := got.Steps[0]
	if first.Model != "outer" || first.From != 100 || first.Took != 400 || len(first.Steps) != 1 || first.Steps[0].From != 200 {
		t.Errorf("the first: %+v", first)
	}
	if got.Steps[1].Model != "late" || !got.Phases.Ensemble || got.Phases.Queue != 63 {
		t.Errorf("then %+v, in all %+v", got.Steps[1], got.Phases)
	}
}

// Ensembles of ensembles have no more steps than others, however they multiply.
func TestStepsAreBounded(t *testing.T) {
	var of *infer.Spans
	for range 5 {
		outer := &infer.Spans{}
		for range 40 {
			outer.Add(infer.Span{Model: "m", Inside: of})
		}
		of = outer
	}
	var count func(all []Step) int
	count = func(all []Step) (n int) {
		for i := range all {
			n += 1 + count(all[i].Steps)
		}
		return n
	}
	all, _ := steps(of, 0)
	if n := count(all); n > 64 || len(all) != 40 {
		t.Errorf("%d steps, %d in all", len(all), n)
	}
}
