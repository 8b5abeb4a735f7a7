package metrics

import (
	"bytes"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/stats"
)

func loaded(t *testing.T, options ...string) (*Metrics, *[]Model) {
	t.Helper()
	c, warnings, err := ParseConfig(options)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	v := stats.NewVersion(nil)
	v.Batch(4, 1000, 2000, 3000)
	v.FormsBatches()
	v.Closed(stats.ClosedShape)
	s := v.Snapshot()
	s.Success = stats.Duration{Count: 1_000_000, Nanos: 2_000_000_999}
	s.FailuresByCause[infer.Rejected] = 2
	sum := NewSummaries(c)
	if sum != nil {
		sum.Observe(5000, 1000, 1000, 1000, 1000)
	}
	models := &[]Model{{Name: `a"b`, Version: 3, Tags: map[string]string{"team": "x"}, Numbers: s, Summaries: sum}}
	resources := []ratelimit.Usage{{Resource: "R", Device: 0, Limit: 3}, {Resource: "R", Device: -2, Limit: 1, Used: 1}}
	return New(Options{Models: func() []Model {
		return *models
	}, Resources: func() []ratelimit.Usage { return resources }, CPU: true, Config: c, ServerVersion: "1"}), models
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	return w.Body.String()
}

// TestTritonNames holds the names and labels that dashboards for Triton use.
func TestTritonNames(t *testing.T) {
	m, _ := loaded(t)
	text := scrape(t, m)
	for _, want := range []string{
		`nv_inference_request_success{_team="x",model="a\"b",version="3"} 1000000`,
		`nv_inference_request_failure{_team="x",model="a\"b",reason="REJECTED",version="3"} 2`,
		`nv_inference_request_failure{_team="x",model="a\"b",reason="BACKEND",version="3"} 0`,
		`nv_inference_request_failure{_team="x",model="a\"b",reason="CANCELED",version="3"} 0`,
		`nv_inference_request_failure{_team="x",model="a\"b",reason="OTHER",version="3"} 0`,
		`nv_inference_count{_team="x",model="a\"b",version="3"} 0`,
		`nv_inference_exec_count{_team="x",model="a\"b",version="3"} 1`,
		`nv_inference_request_duration_us{_team="x",model="a\"b",version="3"} 2000000`,
		`nv_inference_queue_duration_us{_team="x",model="a\"b",version="3"} 0`,
		`nv_inference_compute_input_duration_us{_team="x",model="a\"b",version="3"} 0`,
		`nv_inference_compute_infer_duration_us{_team="x",model="a\"b",version="3"} 0`,
		`nv_inference_compute_output_duration_us{_team="x",model="a\"b",version="3"} 0`,
		`nv_inference_pending_request_count{_team="x",model="a\"b",version="3"} 0`,
		`neso_batch_closed_total{_team="x",model="a\"b",reason="shape",version="3"} 1`,
		`neso_batch_closed_total{_team="x",model="a\"b",reason="full",version="3"} 0`,
		`neso_rate_limit_resource_used_units{device="all",resource="R"} 1`,
		`neso_rate_limit_resource_units{device="0",resource="R"} 3`,
		`neso_batch_size_bucket{_team="x",model="a\"b",version="3",le="4"} 1`,
		"nv_pinned_memory_pool_total_bytes 0",
		"# TYPE nv_inference_count counter",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	for _, unwanted := range []string{"nv_cache", "_summary_us", "first_response", "neso_queue_duration_seconds", "e+06"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("unexpected %q", unwanted)
		}
	}
}

func TestOptionalFamilies(t *testing.T) {
	m, models := loaded(t, "counter_latencies=false", "summary_latencies=true", "histogram_latencies=true", "summary_quantiles=0.5:0.1")
	(*models)[0].Cached = true
	text := scrape(t, m)
	for _, want := range []string{
		`nv_inference_queue_summary_us{_team="x",model="a\"b",version="3",quantile="0.5"} 1`,
		`nv_inference_queue_summary_us_count{_team="x",model="a\"b",version="3"} 1`,
		`nv_inference_first_response_histogram_ms_bucket{_team="x",model="a\"b",version="3",le="+Inf"} 0`,
		`nv_cache_num_hits_per_model{_team="x",model="a\"b",version="3"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if strings.Contains(text, "duration_us") || strings.Contains(text, "nv_inference_request_summary_us") {
		t.Error("latency counters, or the request summary of a cached model, are shown")
	}
}

// TestParsersReadIt: the official parser reads every line, and our own names
// hold Prometheus' conventions.
func TestParsersReadIt(t *testing.T) {
	m, _ := loaded(t, "summary_latencies=true")
	text := scrape(t, m)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(families) < 20 {
		t.Errorf("only %d families: %v", len(families), slices.Sorted(maps.Keys(families)))
	}
	problems, err := promlint.New(bytes.NewReader([]byte(text))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "neso_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// The name of a model is that of a directory, which may be any bytes, and a tag
// is what a user wrote: neither may break the page.
func TestForeignNames(t *testing.T) {
	m, models := loaded(t, "summary_latencies=true")
	(*models)[0].Name = "a\xff"
	(*models)[0].Tags = map[string]string{"my tag-\u00fc": "v\xfe", "my tag--": "twice", "": "x"}
	text := scrape(t, m)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
	if want := `{_="x",_my_tag__="twice",model="a` + "\uFFFD" +
		`",version="3"} 1000000`; !strings.Contains(text, "nv_inference_request_success"+want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}

func TestCustomMetrics(t *testing.T) {
	m := New(Options{Customs: func() []Custom {
		return []Custom{
			{Name: "my_gauge", Help: "a\nb", Kind: prometheus.GaugeValue, Labels: map[string]string{"k": "v"}, Value: math.NaN()},
			{Name: "my_histogram", Kind: prometheus.UntypedValue, Bounds: []float64{1, 2}, Counts: []uint64{1, 0, 2}, Sum: 9.5},
		}
	}})
	text := scrape(t, m)
	for _, want := range []string{
		`my_gauge{k="v"} Nan`, `# HELP my_gauge a\nb`, `my_histogram_bucket{le="2"} 1`,
		`my_histogram_bucket{le="+Inf"} 3`, "my_histogram_sum 9.5",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	m := New(Options{})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/", 200, ""},
		{"GET", "/metric", 200, ""},
		{"POST", "/metrics", 405, `{"error":"Method Not Allowed"}`},
		{"HEAD", "/metrics", 405, `{"error":"Method Not Allowed"}`},
	} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, w.Body, c.status, c.body)
		}
	}
}

// TestFormatValue: as the C++ library of Triton's prints numbers.
func TestFormatValue(t *testing.T) {
	for v, want := range map[float64]string{
		1: "1", math.Copysign(0, -1): "-0", 0.1: "0.1", 0.1 + 0.2: "0.3", 1e-7: "1e-07", 1234567.125: "1234567.125", 1e15: "1000000000000000",
		1e16: "1e+16", 9007199254740992: "9007199254740992", 1.0 / 3: "0.3333333333333333", 1e300: "1e+300",
		math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
	} {
		if got := formatValue(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

func TestParseConfig(t *testing.T) {
	for _, bad := range []string{"x", "=x", "x=", "a,b=c"} {
		if _, _, err := ParseConfig([]string{bad}); err == nil || err.Error() != "--metrics-config option format is <setting>=<value>. Got "+bad {
			t.Errorf("%q: %v", bad, err)
		}
	}
	c, warnings, err := ParseConfig([]string{"summary_quantiles=0.5:0.1,nope,2:1", "unknown=1", "counter_latencies=maybe"})
	if err != nil || len(warnings) != 2 || len(c.Quantiles) != 1 || !c.CounterLatencies {
		t.Errorf("%+v %v %v", c, warnings, err)
	}
	c, _, err = ParseConfig([]string{"summary_quantiles=nope"})
	if err != nil || len(c.Quantiles) != 5 {
		t.Errorf("%+v %v", c, err)
	}
	// Triton reads as much of a number as is one.
	c, warnings, err = ParseConfig([]string{"summary_quantiles=0.1:0.0.1,0.7:0.01x"})
	if err != nil || len(warnings) != 0 || c.Quantiles[0.1] != 0 || c.Quantiles[0.7] != 0.01 || len(c.Quantiles) != 2 {
		t.Errorf("%+v %v %v", c, warnings, err)
	}
}
