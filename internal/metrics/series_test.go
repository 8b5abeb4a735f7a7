package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/stats"
)

// fleet is two versions of a that were called, and b, c, d that were not.
func fleet() []Model {
	var models []Model
	for _, version := range []int64{1, 2} {
		v := stats.NewVersion(nil)
		v.Batch(4, 1000, 2000, 3000)
		models = append(models, Model{Name: "a", Version: version, Numbers: v.Snapshot()})
		models[len(models)-1].Numbers.Success = stats.Duration{Count: 5, Nanos: 1000}
	}
	for _, name := range []string{"b", "c", "d"} {
		models = append(models, Model{Name: name, Version: 1, Numbers: stats.NewVersion(nil).Snapshot()})
	}
	return models
}

// TestFewerSeries: what the settings leave out, and what they leave.
func TestFewerSeries(t *testing.T) {
	series := func(options ...string) (string, int) {
		c, _, err := ParseConfig(options)
		if err != nil {
			t.Fatal(err)
		}
		text := scrape(t, New(Options{Models: fleet, Config: c, ServerVersion: "1"}))
		n := 0
		for line := range strings.Lines(text) {
			if strings.Contains(line, `model="`) {
				n++
			}
		}
		return text, n
	}
	_, all := series()
	text, n := series("neso_idle=false")
	if n == 0 || n >= all || strings.Contains(text, `model="b"`) ||
		!strings.Contains(text, `nv_inference_request_success{model="a",version="2"} 5`) {
		t.Errorf("idle: %d of %d", n, all)
	}
	text, n = series("neso_versions=false", "neso_idle=true")
	if n >= all || strings.Contains(text, "version=\"2\"") || !strings.Contains(text, `nv_inference_request_success{model="a"} 10`) ||
		!strings.Contains(text, `neso_batch_size_count{model="a"} 2`) || !strings.Contains(text, `nv_inference_count{model="d"} 0`) {
		t.Errorf("versions: %d of %d\n%s", n, all, text)
	}
	// A bound leaves out whole versions, says how many, and counts as the page does.
	text, n = series(fmt.Sprintf("neso_max_series=%d", all-1))
	if !strings.Contains(text, "neso_metrics_versions_left_out 1\n") || strings.Contains(text, `model="d"`) ||
		!strings.Contains(text, `model="c"`) {
		t.Errorf("bound: %d of %d", n, all)
	}
	if text, n = series(fmt.Sprintf("neso_max_series=%d", all)); n != all || !strings.Contains(text, "neso_metrics_versions_left_out 0\n") {
		t.Errorf("a bound that is enough: %d of %d", n, all)
	}
	if text, n = series("neso_max_series=10"); n > 10 || !strings.Contains(text, "neso_metrics_versions_left_out") {
		t.Errorf("a bound of 10: %d", n)
	}
	for option, want := range map[string]string{
		"neso_max_series=many": "expected a number of series", "neso_max_series=-1": "expected a number of series",
		"neso_versions=false,summary_latencies=true": "contradict each other",
	} {
		if _, _, err := ParseConfig(strings.Split(option, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", option, err)
		}
	}
}
