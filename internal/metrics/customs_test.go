package metrics

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
)

func TestCustoms(t *testing.T) {
	customs := NewCustoms()
	get := func(f backend.MetricFamily, labels map[string]string) backend.Metric {
		t.Helper()
		m, err := customs.Metric(f, labels)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	counter := backend.MetricFamily{Name: "my_counter", Description: "d", Kind: backend.Counter}
	gauge := backend.MetricFamily{Name: "my_gauge", Description: "d", Kind: backend.Gauge}
	histogram := backend.MetricFamily{Name: "my_histogram", Description: "d", Kind: backend.Histogram, Buckets: []float64{1, 2}}
	one, same := get(counter, map[string]string{"k": "v"}), get(counter, map[string]string{"k": "v"})
	other := get(counter, map[string]string{"k": "w"})
	g, h := get(gauge, nil), get(histogram, nil)
	for _, err := range []error{one.Increment(2), same.Increment(1.5), g.Set(3), g.Increment(-1), h.Observe(1), h.Observe(1.5), h.Observe(9)} {
		if err != nil {
			t.Error(err)
		}
	}
	if v, err := same.Value(); v != 3.5 || err != nil {
		t.Error(v, err)
	}
	for _, err := range []error{
		one.Set(1), one.Observe(1), one.Increment(-1), one.Increment(math.NaN()), g.Observe(1), h.Set(1),
		h.Increment(1), h.Observe(math.NaN()),
	} {
		if err == nil {
			t.Error("an operation that does not fit has succeeded")
		}
	}
	if _, err := h.Value(); err == nil {
		t.Error("no error")
	}
	type line struct {
		Name, Label string
		Value       float64
		Counts      []uint64
	}
	shown := func() []line {
		var all []line
		for _, c := range customs.List() {
			v := c.Value
			if c.Counts != nil {
				v = c.Sum
			}
			all = append(all, line{c.Name, c.Labels["k"], v, c.Counts})
		}
		return all
	}
	want := []line{
		{"my_counter", "v", 3.5, nil},
		{"my_counter", "w", 0, nil},
		{"my_gauge", "", 2, nil},
		{"my_histogram", "", 11.5, []uint64{1, 1, 1}},
	}
	if d := cmp.Diff(shown(), want); d != "" {
		t.Error(d)
	}
	one.Release()
	one.Release() // twice is once
	other.Release()
	if d := cmp.Diff(shown(), []line{want[0], want[2], want[3]}); d != "" {
		t.Error(d)
	}
	same.Release()
	g.Release()
	h.Release()
	if len(customs.List()) != 0 || customs.series != 0 {
		t.Error(customs.List(), customs.series)
	}
}

// TestCustomsRefuse: what Prometheus could not show is refused, whatever else has
// been made.
func TestCustomsRefuse(t *testing.T) {
	customs := NewCustoms()
	counter := backend.MetricFamily{Name: "my_counter", Description: "d", Kind: backend.Counter}
	histogram := backend.MetricFamily{Name: "my_histogram", Description: "d", Kind: backend.Histogram, Buckets: []float64{1, 2}}
	get := func(f backend.MetricFamily, labels map[string]string) backend.Metric {
		t.Helper()
		m, err := customs.Metric(f, labels)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	refused := map[string]struct {
		f      backend.MetricFamily
		labels map[string]string
	}{
		"name":            {f: backend.MetricFamily{Name: "a b"}},
		"own name":        {f: backend.MetricFamily{Name: "nv_inference_count"}},
		"kind":            {f: backend.MetricFamily{Name: "x", Kind: 9}},
		"unfit buckets":   {f: backend.MetricFamily{Name: "x", Buckets: []float64{1}}},
		"unsorted":        {f: backend.MetricFamily{Name: "x", Kind: backend.Histogram, Buckets: []float64{2, 1}}},
		"infinite bucket": {f: backend.MetricFamily{Name: "x", Kind: backend.Histogram, Buckets: []float64{math.Inf(1), math.Inf(1)}}},
		"label":           {f: counter, labels: map[string]string{"a-b": ""}},
		"le":              {f: histogram, labels: map[string]string{"le": ""}},
	}
	for name, tc := range refused {
		if _, err := customs.Metric(tc.f, tc.labels); backend.AsError(err) == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
	accepted := get(backend.MetricFamily{Name: "x", Kind: backend.Histogram}, nil)
	for i, buckets := range [][]float64{{1, 5}, {2, math.Inf(1)}} { // those of one family may differ
		f := backend.MetricFamily{Name: "x", Kind: backend.Histogram, Buckets: buckets}
		m := get(f, map[string]string{"i": strconv.Itoa(i)})
		if _, err := customs.Metric(f, nil); err == nil {
			t.Error("the same labels with other buckets")
		}
		m.Release()
	}
	if err := accepted.Observe(3); err != nil {
		t.Error(err)
	}
	accepted.Release()
}

// TestMetricFamilies: a name has the kind of whoever holds it, and the
// description of whoever was first.
func TestMetricFamilies(t *testing.T) {
	customs := NewCustoms()
	register := func(description string, kind backend.MetricKind) (func(), error) {
		return customs.Register(backend.MetricFamily{Name: "held", Description: description, Kind: kind})
	}
	first, err := register("one", backend.Counter)
	if err != nil || len(customs.List()) != 0 {
		t.Fatal(err, customs.List())
	}
	second, err := register("two", backend.Counter)
	if err != nil {
		t.Fatal(err)
	}
	clash := func(when string) {
		t.Helper()
		_, byFamily := register("one", backend.Gauge)
		_, byMetric := customs.Metric(backend.MetricFamily{Name: "held", Kind: backend.Gauge}, nil)
		for _, err := range []error{byFamily, byMetric} {
			if err == nil || !strings.Contains(err.Error(), "Family name already exists with different type") {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	clash("held twice")
	first()
	first() // twice is once
	clash("held once")
	m, err := customs.Metric(backend.MetricFamily{Name: "held", Description: "three"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown := customs.List(); len(shown) != 1 || shown[0].Help != "one" {
		t.Error(shown)
	}
	second()
	clash("a metric is left")
	m.Release()
	third, err := register("four", backend.Gauge)
	if err != nil {
		t.Fatal(err)
	}
	third()
	if len(customs.families) != 0 {
		t.Error(customs.families)
	}
	for name, f := range map[string]backend.MetricFamily{
		"name": {Name: "a b"}, "empty": {}, "own name": {Name: "nv_inference_count"}, "kind": {Name: "x", Kind: 9},
	} {
		if _, err := customs.Register(f); backend.AsError(err) == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
}
