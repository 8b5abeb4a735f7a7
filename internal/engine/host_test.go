package engine

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// recorder keeps what a model is answered.
type recorder struct {
	responses []*backend.Response
	done      chan struct{}
}

func (r *recorder) Respond(resp *backend.Response, final bool) error {
	if resp != nil {
		r.responses = append(r.responses, resp)
	}
	if final {
		close(r.done)
	}
	return nil
}

func (r *recorder) Cancelled() bool { return false }

// call is a request of a model to another one.
func call(model string, to backend.Responder) *backend.Request {
	return &backend.Request{ID: "x", ModelName: model, ModelVersion: -1, Inputs: []tensor.Tensor{input(2)}, Responder: to}
}

func hosted(t *testing.T, o func(top string) Options) (*Engine, backend.Host) {
	t.Helper()
	var host backend.Host
	echo := &nesotest.Echo{Name: "echo", OnOpen: func(h backend.Host, _ backend.Settings) error {
		host = h
		return nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	return server(t, o(top), echo), host
}

func TestHost(t *testing.T) {
	e, host := hosted(t, func(top string) Options { return explicit(top, "a") })
	released := 0
	freed := releaser(func() { released++ })
	to := &recorder{done: make(chan struct{})}
	req := call("a", to)
	buffer := tensor.NewBuffer(make([]byte, 8), freed)
	req.Inputs[0].Buffer, req.Inputs[0].Data = buffer, buffer.Bytes()
	if err := host.Infer(req); err != nil {
		t.Fatal(err)
	}
	<-to.done
	if len(to.responses) != 1 || to.responses[0].Err != nil || len(to.responses[0].Outputs) != 1 {
		t.Error(to.responses)
	}
	if released != 0 {
		t.Error("the caller's input was released")
	}
	if buffer.Release(); released != 1 {
		t.Errorf("released %d times", released)
	}
	wantError(t, host.Infer(call("nope", to)), backend.Internal, "Model nope - Error when running inference: Failed for execute the inference request. Model 'nope' is not ready.")
	bad := call("a", to)
	bad.Inputs[0].Name = "ZZ"
	if err := host.Infer(bad); err == nil {
		t.Error("no error")
	}
	if host.Ready("b", -1) || !host.Ready("a", -1) || !host.Ready("a", 1) || host.Ready("a", 2) {
		t.Error("readiness")
	}
	if err := host.Load(t.Context(), "b", "", nil); err != nil || !host.Ready("b", -1) {
		t.Error(err)
	}
	if err := host.Unload(t.Context(), "b", false); err != nil || host.Ready("b", -1) {
		t.Error(err)
	}
	if host.Logger() == nil || host.Allocator() != e.Allocator() {
		t.Error("logger, allocator")
	}
}

type releaser func()

func (r releaser) ReleaseBuffer(*tensor.Buffer) { r() }

func TestCustomMetrics(t *testing.T) {
	e, host := hosted(t, func(top string) Options { return explicit(top, "a") })
	get := func(f backend.MetricFamily, labels map[string]string) backend.Metric {
		t.Helper()
		m, err := host.Metric(f, labels)
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
	for _, err := range []error{one.Set(1), one.Observe(1), one.Increment(-1), one.Increment(math.NaN()), g.Observe(1), h.Set(1), h.Increment(1), h.Observe(math.NaN())} {
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
		for _, c := range e.CustomMetrics() {
			v := c.Value
			if c.Counts != nil {
				v = c.Sum
			}
			all = append(all, line{c.Name, c.Labels["k"], v, c.Counts})
		}
		return all
	}
	want := []line{{"my_counter", "v", 3.5, nil}, {"my_counter", "w", 0, nil}, {"my_gauge", "", 2, nil}, {"my_histogram", "", 11.5, []uint64{1, 1, 1}}}
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
	if len(e.CustomMetrics()) != 0 || e.custom.series != 0 {
		t.Error(e.CustomMetrics(), e.custom.series)
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
		if _, err := host.Metric(tc.f, tc.labels); backend.AsError(err) == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
	accepted := get(backend.MetricFamily{Name: "x", Kind: backend.Histogram}, nil)
	for i, buckets := range [][]float64{{1, 5}, {2, math.Inf(1)}} { // those of one family may differ
		f := backend.MetricFamily{Name: "x", Kind: backend.Histogram, Buckets: buckets}
		m := get(f, map[string]string{"i": strconv.Itoa(i)})
		if _, err := host.Metric(f, nil); err == nil {
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
	e, host := hosted(t, func(top string) Options { return explicit(top, "a") })
	register := func(description string, kind backend.MetricKind) (func(), error) {
		return host.MetricFamily(backend.MetricFamily{Name: "held", Description: description, Kind: kind})
	}
	first, err := register("one", backend.Counter)
	if err != nil || len(e.CustomMetrics()) != 0 {
		t.Fatal(err, e.CustomMetrics())
	}
	second, err := register("two", backend.Counter)
	if err != nil {
		t.Fatal(err)
	}
	clash := func(when string) {
		t.Helper()
		_, byFamily := register("one", backend.Gauge)
		_, byMetric := host.Metric(backend.MetricFamily{Name: "held", Kind: backend.Gauge}, nil)
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
	m, err := host.Metric(backend.MetricFamily{Name: "held", Description: "three"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown := e.CustomMetrics(); len(shown) != 1 || shown[0].Help != "one" {
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
	if len(e.custom.families) != 0 {
		t.Error(e.custom.families)
	}
	for name, f := range map[string]backend.MetricFamily{
		"name": {Name: "a b"}, "empty": {}, "own name": {Name: "nv_inference_count"}, "kind": {Name: "x", Kind: 9},
	} {
		if _, err := host.MetricFamily(f); backend.AsError(err) == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestModelLoadsAnother: a model that loads another one while it is itself
// being loaded must not wait for a load thread that it holds.
func TestModelLoadsAnother(t *testing.T) {
	var host backend.Host
	echo := &nesotest.Echo{
		Name:   "echo",
		OnOpen: func(h backend.Host, _ backend.Settings) error { host = h; return nil },
		OnLoad: func(ctx context.Context, cfg backend.Config) error {
			if cfg.Name == "a" {
				return host.Load(ctx, "b", "", nil)
			}
			return nil
		},
	}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	o := explicit(top)
	o.LoadThreads = 1
	e := server(t, o, echo)
	mustLoad(t, e, "a", "", nil)
	wantServed(t, e, "b", -1, 1)
}
