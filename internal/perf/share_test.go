package perf

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/report"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// TestPlaces: outputs lie behind each other, those of unknown size with the size given.
func TestPlaces(t *testing.T) {
	outputs := []data.Input{
		{Name: "A", Datatype: tensor.FP32, Shape: tensor.Shape{3}},
		{Name: "B", Datatype: tensor.Bytes, Shape: tensor.Shape{1}},
		{Name: "C", Datatype: tensor.Int8, Shape: tensor.Shape{-1}},
		{Name: "D", Datatype: tensor.Int8, Shape: tensor.Shape{1}},
	}
	all, size := places(outputs, "r", 10, true, 1000)
	want := []wire.Output{
		{Name: "A", Region: "r", Offset: 0, Size: 120},
		{Name: "B", Region: "r", Offset: 128, Size: 1000},
		{Name: "C", Region: "r", Offset: 1152, Size: 1000},
		{Name: "D", Region: "r", Offset: 2176, Size: 10},
	}
	if diff := cmp.Diff(all, want); diff != "" || size != 2240 {
		t.Errorf("%s; %d bytes", diff, size)
	}
}

// TestMetrics: means of what changes, maxima of what fills; lines that are none are
// passed over.
func TestMetrics(t *testing.T) {
	g := report.NewGPU()
	for _, text := range []string{
		"# HELP nv_gpu_utilization x\nnv_gpu_utilization{gpu_uuid=\"A\"} 0.5\nnv_gpu_power_usage{x=\"y\",gpu_uuid=\"A\"} 100\n" +
			"nv_gpu_memory_used_bytes{gpu_uuid=\"A\"} 7e9\nnv_gpu_memory_total_bytes{gpu_uuid=\"A\"} 8e9\n",
		"nv_gpu_utilization{gpu_uuid=\"A\"} 1 1700000000\nnv_gpu_memory_used_bytes{gpu_uuid=\"A\"} 5\nnv_gpu_utilization{gpu_uuid=\"B\n" +
			"nv_gpu_utilization{} 9\nnv_gpu_utilization\nnv_gpu_utilization{gpu_uuid=\"C\"}\nnv_gpu_utilization{gpu_uuid=\"C\"} x\n",
	} {
		if err := add(&g, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	one := func(v float64) map[string]float64 { return map[string]float64{"A": v} }
	if diff := cmp.Diff(g, report.GPU{Utilization: one(1.5), Power: one(100), UsedBytes: one(7e9), TotalBytes: one(8e9)}); diff != "" {
		t.Error(diff)
	}
	if err := add(&g, strings.NewReader(strings.Repeat("x", 1<<20))); err == nil {
		t.Error("a line without end is no error")
	}
}

func TestCollect(t *testing.T) {
	reads := make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("nv_gpu_utilization{gpu_uuid=\"A\"} 0.25\n"))
		select {
		case reads <- struct{}{}:
		default:
		}
	}))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	c, err := collect(t.Context(), address+"/metrics", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-reads
	}
	for range 2 {
		if g, err := c.end(); err != nil || g.Utilization["A"] != 0.25 {
			t.Errorf("%v, %+v", err, g)
		}
	}
	if _, err := collect(t.Context(), address+"/nothing", time.Second); err == nil || !strings.Contains(err.Error(), "HTTP status 404") {
		t.Error(err)
	}
}
