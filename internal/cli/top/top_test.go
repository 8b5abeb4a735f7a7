package top

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/client"
)

func statistics(t *testing.T, text string) []Statistics {
	t.Helper()
	all, err := ReadStatistics([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func series(t *testing.T, text string) []Series {
	t.Helper()
	all, err := ReadSeries(strings.NewReader(text), Names()...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const begin = "2026-01-02T03:04:05Z"

func at(t *testing.T, seconds int) time.Time {
	t.Helper()
	b, err := time.Parse(time.RFC3339, begin)
	if err != nil {
		t.Fatal(err)
	}
	return b.Add(time.Duration(seconds) * time.Second)
}

// TestTable: two looks, four seconds apart, at a model that ran, one that idled, one
// that was loaded anew and one that failed to load.
func TestTable(t *testing.T) {
	before := Look{
		At: at(t, 0),
		Models: statistics(t, `{"model_stats":[
			{"name":"runs","version":"1","inference_count":100,"execution_count":50,
			 "inference_stats":{"success":{"count":100,"ns":1000000000},"fail":{"count":2,"ns":5},"queue":{"count":100,"ns":0},"compute_infer":{"count":100,"ns":0}},
			 "batch_stats":[{"compute_input":{"count":50,"ns":0},"compute_infer":{"count":50,"ns":1000000000},"compute_output":{"count":50,"ns":0}}]},
			{"name":"idles","version":"3","inference_count":7,"execution_count":7,"inference_stats":{"success":{"count":7,"ns":7}}},
			{"name":"anew","version":"1","inference_count":900,"execution_count":900,"inference_stats":{"success":{"count":900,"ns":7}}}]}`),
		Series: series(t, `neso_request_duration_seconds_bucket{model="runs",version="1",le="0.005"} 100
neso_request_duration_seconds_bucket{model="runs",version="1",le="0.1"} 100
neso_request_duration_seconds_bucket{model="runs",version="1",le="+Inf"} 100
neso_worker_cpu_seconds_total{model="runs",version="1"} 10
neso_worker_cpu_seconds_total{model="anew",version="1"} 10
process_cpu_seconds_total 3
`),
	}
	now := Look{
		At: at(t, 4),
		Index: []client.IndexEntry{
			{Name: "runs", Version: "1", State: "READY"},
			{Name: "idles", Version: "3", State: "READY"},
			{Name: "anew", Version: "1", State: "READY"},
			{Name: "evil\x1b[2J\u202e", Version: "1", State: "UNAVAILABLE", Reason: "no\nfile"},
		},
		Models: statistics(t, `{"model_stats":[
			{"name":"runs","version":"1","inference_count":500,"execution_count":150,
			 "inference_stats":{"success":{"count":300,"ns":3000000000},"fail":{"count":6,"ns":5},"queue":{"count":300,"ns":400000000},"compute_infer":{"count":300,"ns":1000000000}},
			 "batch_stats":[{"compute_input":{"count":150,"ns":0},"compute_infer":{"count":150,"ns":7000000000},"compute_output":{"count":50,"ns":0}}],
			 "memory_usage":[{"type":"CPU","id":0,"byte_size":123456789}]},
			{"name":"idles","version":"3","inference_count":7,"execution_count":7,"inference_stats":{"success":{"count":7,"ns":7}}},
			{"name":"anew","version":"1","inference_count":8,"execution_count":4,"inference_stats":{"success":{"count":8,"ns":16000000}}}]}`),
		Series: series(t, `# HELP nv_inference_pending_request_count x
nv_inference_pending_request_count{model="runs",version="1"} 12
nv_inference_pending_request_count{model="idles",version="3"} 0 1700000000
neso_request_duration_seconds_bucket{model="runs",version="1",le="0.005"} 290
neso_request_duration_seconds_bucket{model="runs",version="1",le="0.1"} 299
neso_request_duration_seconds_bucket{model="runs",version="1",le="+Inf"} 300
neso_worker_cpu_seconds_total{model="runs",version="1"} 13
neso_worker_cpu_seconds_total{model="anew",version="1"} 1
process_cpu_seconds_total 5
process_resident_memory_bytes 61000000
nv_cpu_utilization 0.625
nv_cpu_memory_total_bytes 2.4e+10
nv_cpu_memory_used_bytes 6.1e+09
nv_gpu_utilization{gpu_uuid="GPU-a"} 0.93
nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 8e+10
nv_gpu_memory_total_bytes{gpu_uuid="GPU-b\u001b"} 8e+10
nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 1.23e+10
nv_gpu_power_usage{gpu_uuid="GPU-a"} 310.4
`),
	}
	rows := Rates(before, now)
	Sort(rows, "requests")
	want := `localhost:8000  03:04:09  every 4s  3 of 4 versions ready
server 0.50 CPUs, 61 MB; machine 62 %, 6.1 GB of 24.0 GB; GPU 0 93 %, 12.3 GB of 80.0 GB, 310 W; GPU 1
MODEL      VERSION  STATE        REQ/S  INFER/S  FAIL/S  BATCH  LATENCY ms   P99 ms  QUEUE ms  COMPUTE ms  BUSY  PENDING   CPU  MEMORY MB
runs             1  READY         51.0    100.0     1.0    4.0      10.000  100.000     2.000       5.000  1.50       12  0.75        123
anew             1  READY          2.0      2.0     0.0    2.0       2.000        -         -           -  0.00        -  0.25          -
idles            3  READY          0.0      0.0     0.0      -           -        -         -           -  0.00        0     -          -
evil [2J         1  UNAVAILABLE      -        -       -      -           -        -         -           -     -        -     -          -  no file
`
	h := Header{URL: "localhost:8000", At: now.At, Interval: 4 * time.Second, Machine: Machine(before, now)}
	if got := Draw(h, rows, 0, 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	small := Draw(h, rows, 20, 5)
	lines := strings.Split(strings.TrimSuffix(small, "\n"), "\n")
	if len(lines) != 5 || lines[4] != "and 3 more" {
		t.Errorf("in five lines of 20 characters: %q", lines)
	}
	for _, line := range lines {
		if len([]rune(line)) > 20 {
			t.Errorf("%q is longer than 20", line)
		}
	}
}

func TestSort(t *testing.T) {
	nan := math.NaN()
	rows := []Row{{Model: "c", P99: nan}, {Model: "b", P99: 1}, {Model: "a", P99: 2}, {Model: "d", P99: 2}}
	for _, by := range Orders {
		Sort(rows, by)
		var names []string
		for i := range rows {
			names = append(names, rows[i].Model)
		}
		want := "a b c d"
		if by == "p99" {
			want = "a d b c"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}

func TestReadSeries(t *testing.T) {
	for text, want := range map[string]string{
		Pending + `{model="a\"b\\c\nd",version="1"} 3`: "a\"b\\c\nd",
		Pending + ` 3`:                 "",
		Pending + `{model="a} 3`:       "none",
		Pending + `{model="a"}`:        "none",
		Pending + `{model="a"} x`:      "none",
		Pending + `{model="a\`:         "none",
		Pending + `_more{model="a"} 3`: "none",
		`# ` + Pending:                 "none",
		Pending + `{`:                  "none",
	} {
		got := "none"
		if all := series(t, text+"\n"); len(all) == 1 && all[0].Value == 3 {
			got = all[0].Labels["model"]
		}
		if got != want {
			t.Errorf("%q is of model %q, want %q", text, got, want)
		}
	}
	if _, err := ReadSeries(strings.NewReader(strings.Repeat("x", maxLine+1)), Pending); err == nil {
		t.Error("a line without end was taken")
	}
}

func FuzzReadSeries(f *testing.F) {
	f.Add(Pending + `{model="a\"b",version="1"} 3`)
	f.Add(gpuTotal + `{gpu_uuid="a"} NaN`)
	f.Add(Buckets + `{le="+Inf"} NaN`)
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := ReadSeries(strings.NewReader(text), Names()...)
		look := Look{At: time.Unix(1, 0), Series: all}
		rows := Rates(Look{}, Look{At: time.Unix(1, 0), Series: all, Index: []client.IndexEntry{{Name: "m", Version: "1"}}})
		if got := Draw(Header{Machine: Machine(Look{}, look)}, rows, 80, 4); strings.Count(got, "\n") > 4 {
			t.Errorf("%q in four lines", got)
		}
	})
}
