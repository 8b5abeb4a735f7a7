package perf

import (
	"errors"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/perf/measure"
)

// TestWatch: each look is a time, what has been answered and what has failed until then.
func TestWatch(t *testing.T) {
	type at struct {
		after            time.Duration
		answered, failed int64
	}
	const s = time.Second
	for name, c := range map[string]struct {
		looks []at
		want  error
	}{
		"all is well":                 {[]at{{0, 5, 0}, {s, 50, 0}, {20 * s, 51, 0}}, nil},
		"never an answer":             {[]at{{0, 0, 3}, {s / 10, 0, 10}}, errNoAnswer},
		"not yet":                     {[]at{{0, 0, 3}, {30 * s, 0, 9}}, nil},
		"dead in the middle":          {[]at{{0, 5, 0}, {s, 5, 6}, {2 * s, 5, 12}, {3 * s, 5, 30}}, errNoAnswer},
		"a restart":                   {[]at{{0, 5, 0}, {s, 5, 20}, {3 * s / 2, 6, 40}, {2 * s, 6, 60}, {5 * s / 2, 90, 60}}, nil},
		"a slow model that fails":     {[]at{{0, 1, 0}, {30 * s, 1, 1}, {60 * s, 2, 1}, {90 * s, 2, 3}}, nil},
		"half of the requests fail":   {[]at{{0, 1, 1}, {s, 100, 100}, {2 * s, 200, 200}, {5 * s, 300, 300}}, nil},
		"silence":                     {[]at{{0, 5, 0}, {9 * time.Minute, 5, 0}, {11 * time.Minute, 5, 0}}, errSilence},
		"silence from the begin":      {[]at{{0, 0, 0}, {11 * time.Minute, 0, 0}}, errSilence},
		"an answer in nine minutes":   {[]at{{0, 1, 0}, {9 * time.Minute, 2, 0}, {18 * time.Minute, 3, 0}}, nil},
		"failures in eleven minutes":  {[]at{{0, 1, 0}, {9 * time.Minute, 1, 1}, {18 * time.Minute, 1, 2}}, nil},
		"dead since the window began": {[]at{{0, 5, 0}, {s, 0, 12}, {3 * s, 0, 24}}, errNoAnswer},
	} {
		w := newWatch(0)
		var err error
		for _, l := range c.looks {
			if l.answered < w.answered {
				w.anew()
			}
			err = errors.Join(err, w.look(int64(l.after), l.answered, l.failed))
		}
		if !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestBecause(t *testing.T) {
	w := &measure.Window{Errors: []measure.ErrorCount{{Kind: "cannot connect", Text: "refused", Count: 12}, {Kind: "x", Count: 1}}}
	if got := because(errNoAnswer, w).Error(); got != "no request is answered any more: cannot connect: refused (12 times)" {
		t.Error(got)
	}
	if got := because(errSilence, w); !errors.Is(got, errSilence) || because(nil, w) != nil {
		t.Error(got)
	}
}
