package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/perf/target"
)

const ms = 1e6

func sample(latency int64) *Sample {
	return &Sample{Due: 0, Begun: 0, Sent: latency / 4, First: latency / 2, Last: latency, Responses: 1}
}

// TestTake: what was counted since the last call, whatever shards still hold back.
func TestTake(t *testing.T) {
	r := NewRecorder()
	a, b := r.Shard(), r.Shard()
	for i := range int64(flushed + 10) { // more than a shard holds back
		a.Add(sample((i + 1) * 1000))
	}
	b.Add(&Sample{Due: 0, Begun: 11 * ms, Sent: 12 * ms, First: 14 * ms, Last: 20 * ms, Responses: 3, SequenceEnd: true})
	b.Fail("x", "first")
	b.Fail("x", "second")
	a.Fail("y", "")
	if answered, failed, _ := r.Counts(); answered != flushed+11 || failed != 3 {
		t.Errorf("%d answered, %d failed", answered, failed)
	}
	w := r.Take()
	if w.Count != flushed+11 || w.Histogram.TotalCount() != flushed+11 || w.Responses != flushed+13 || w.Sequences != 1 || w.Delayed != 1 {
		t.Errorf("%+v", w.Sums)
	}
	if w.Service-w.Sums.Latency != -11*ms {
		t.Errorf("latency %d counts from when a request was due, service %d from when it was sent", w.Sums.Latency, w.Service)
	}
	want := []ErrorCount{{"x", "first", 2}, {"y", "", 1}}
	if diff := cmp.Diff(w.Errors, want); diff != "" {
		t.Error(diff)
	}
	if w := r.Take(); w.Count != 0 || len(w.Errors) != 0 || w.Histogram.TotalCount() != 0 {
		t.Errorf("a second time: %+v", w)
	}
}

// TestPercentiles: within a thousandth of what they are.
func TestPercentiles(t *testing.T) {
	r := NewRecorder()
	l := r.Shard()
	for i := range int64(100_000) {
		l.Add(sample((i + 1) * 1000))
	}
	w := r.Take()
	for p, want := range map[int]int64{50: 50 * ms, 90: 90 * ms, 99: 99 * ms} {
		if got := w.Latency(p); got < want*999/1000 || got > want*1001/1000 {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if got := w.Latency(-1); got != w.Mean() || got != 50000500 {
		t.Errorf("the mean is %d", got)
	}
	if got := w.Deviation(); got < 28.86*ms || got > 28.87*ms { // 100 ms over the root of 12
		t.Errorf("the deviation is %d", got)
	}
	l.Add(&Sample{Last: 2 * longest})
	l.Add(&Sample{Last: -5})
	if w := r.Take(); w.Histogram.TotalCount() != 2 {
		t.Errorf("latencies beyond the histogram are lost: %d are in it", w.Histogram.TotalCount())
	}
}

func window(seconds float64, count, meanNS int64) *Window {
	w := &Window{End: int64(seconds * 1e9), Histogram: newHistogram(), ServerCPU: 1, ClientCPU: 2}
	w.Count, w.Sums.Latency = count, count*meanNS
	for range count {
		_ = w.Histogram.RecordValue(meanNS)
	}
	return w
}

func TestStable(t *testing.T) {
	for name, c := range map[string]struct {
		windows   []*Window
		threshold float64
		want      bool
	}{
		"too few":           {[]*Window{window(1, 100, ms), window(1, 100, ms)}, 0.1, false},
		"equal":             {[]*Window{window(1, 100, ms), window(1, 100, ms), window(1, 100, ms)}, 0, true},
		"in bounds":         {[]*Window{window(1, 100, ms), window(1, 110, ms), window(1, 105, ms)}, 0.1, true},
		"throughput beyond": {[]*Window{window(1, 100, ms), window(1, 112, ms), window(1, 105, ms)}, 0.1, false},
		"latency beyond":    {[]*Window{window(1, 100, ms), window(1, 100, 1.2*ms), window(1, 100, ms)}, 0.1, false},
		"only the last":     {[]*Window{window(1, 9, 9*ms), window(1, 100, ms), window(1, 100, ms), window(1, 100, ms)}, 0.1, true},
		"nothing answered":  {[]*Window{window(1, 0, 0), window(1, 0, 0), window(1, 0, 0)}, 99, false},
		"lengths differ":    {[]*Window{window(1, 100, ms), window(2, 200, ms), window(4, 400, ms)}, 0.1, true},
	} {
		if got := Stable(c.windows, c.threshold, -1, true); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	two := []*Window{window(1, 90, ms), window(1, 110, ms)}
	if got := Spread(two); got < 0.0999 || got > 0.1001 {
		t.Errorf("spread %v", got)
	}
	if got := Spread([]*Window{window(1, 0, 0)}); got != 0 {
		t.Errorf("spread of nothing %v", got)
	}
}

func TestMerge(t *testing.T) {
	a, b := window(1, 100, ms), window(2, 300, 2*ms)
	a.Errors, b.Errors = []ErrorCount{{"x", "t", 1}}, []ErrorCount{{"y", "", 5}, {"x", "u", 1}}
	phases := func(n int64) []target.Counters {
		return []target.Counters{{Name: "m", Version: "1", Inferences: n, Phases: map[string]target.Duration{"success": {Count: n, NS: n}}}}
	}
	a.Server, b.Server = phases(2), phases(3)
	m := Merge([]*Window{a, b})
	if m.Count != 400 || m.Seconds() != 3 || m.Mean() != 1.75*ms || m.Histogram.TotalCount() != 400 || m.ClientCPU != 4 || m.ServerCPU != 2 {
		t.Errorf("%+v, %v s", m.Sums, m.Seconds())
	}
	if diff := cmp.Diff(m.Errors, []ErrorCount{{"y", "", 5}, {"x", "t", 2}}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(m.Server, phases(5)); diff != "" {
		t.Error(diff)
	}
	if b.ServerCPU = -1; Merge([]*Window{a, b}).ServerCPU != -1 {
		t.Error("processor time that cannot be seen in one window is there for all")
	}
	if m := Merge(nil); m.Count != 0 || m.Rate() != 0 || m.Mean() != 0 {
		t.Errorf("of nothing: %+v", m)
	}
}

// TestErrorsAreBounded: a server that invents errors fills no memory, and its texts do
// nothing to a terminal.
func TestErrorsAreBounded(t *testing.T) {
	r := NewRecorder()
	l := r.Shard()
	for i := range 1000 {
		l.Fail(fmt.Sprintf("kind %d", i), "x")
	}
	w := r.Take()
	if len(w.Errors) > mostKinds+1 || w.Failed() != 1000 || w.Errors[0].Kind != "others" {
		t.Errorf("%d kinds, %d failed, first %q", len(w.Errors), w.Failed(), w.Errors[0].Kind)
	}
	l.Fail(strings.Repeat("k", 200), "\x1b]0;title\a\u202egnp\nnext\xff"+strings.Repeat("ä", 600))
	e := r.Take().Errors[0]
	if strings.ContainsAny(e.Text, "\x1b\a\u202e\n") || !strings.HasPrefix(e.Text, "\ufffd]0;title\ufffd\ufffdgnp next\ufffdä") ||
		!strings.HasSuffix(e.Text, "ä...") || len(e.Kind) != longestKind+len("...") {
		t.Errorf("%q: %q", e.Kind, e.Text)
	}
}

// TestRecordsAreBounded: answers that are too much to keep are left out of records,
// which are counted.
func TestRecordsAreBounded(t *testing.T) {
	r := NewRecorder()
	r.most = 10
	l := r.Shard()
	body := []byte("abcdef")
	for range 3 {
		l.Keep(&Record{Body: body})
	}
	body[0] = 'x'
	w := r.Take()
	if len(w.Records) != 3 || string(w.Records[0].Body) != "abcdef" || w.Records[1].Body != nil || r.Cut() != 2 {
		t.Errorf("%+v, %d cut", w.Records, r.Cut())
	}
}
