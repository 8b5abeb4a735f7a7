package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/trial"
)

const (
	hostile   = "<script>\u202eb\x1b[31m\""
	completed = `{"name":"m","max_batch_size":4,"instance_group":[{"count":1,"kind":"KIND_CPU"}],"dynamic_batching":{}}`
)

func level(concurrency int, throughput, p99 float64) trial.Level {
	return trial.Level{Load: trial.Load{Concurrency: concurrency, Batch: 2}, Memory: 50e6, Models: map[string]*trial.Number{"m": {
		Throughput: trial.Stat{Mean: throughput, Deviation: 1, N: 3}, CPU: trial.Stat{Mean: 12, N: 3}, Queue: 0.25, Stable: true,
		Latency: map[string]trial.Stat{"avg": {Mean: 1, N: 3}, "p99": {Mean: p99, N: 3}}, Requests: 9,
	}}}
}

func outcome(t *testing.T) Outcome {
	t.Helper()
	set := func(value string) trial.Variant {
		return trial.Variant{"m": []edit.Change{{Field: "max_batch_size", Value: json.RawMessage(value)}}}
	}
	s := &checkpoint.State{
		Goal: checkpoint.Goal{Text: "most of it", Models: []checkpoint.GoalOfModel{{
			Model: "m", Weight: 1, Objectives: map[trial.Metric]float64{trial.Throughput: 1},
			Max: map[trial.Metric]float64{trial.LatencyP99: 20},
		}}},
		Models: []checkpoint.Model{{Name: "m", Config: "max_batch_size: 4\n", Completed: json.RawMessage(completed)}},
		Runs: []trial.Run{
			{ID: 1, Effort: 1, Values: map[string]string{"batch": "4"}, Levels: []trial.Level{level(1, 100, 5), level(8, 200, 30)}},
			{ID: 2, Effort: 1, Variant: set("8"), Values: map[string]string{"batch": "8"}, Levels: []trial.Level{level(1, 150, 5)}},
			{ID: 3, Effort: 1, Variant: set("9"), Values: map[string]string{"batch": hostile}, Failure: hostile},
		},
	}
	o, err := Of(s)
	if err != nil {
		t.Fatal(err)
	}
	return *o
}

func TestInference(t *testing.T) {
	o := outcome(t)
	o.State.Goal.Fields = []string{
		"model_name", "batch_size", "concurrency", "model_config_path", "instance_group", "max_batch_size", "dynamic_batch_sizes",
		"satisfies_constraints", "perf_throughput", "perf_latency_p99", "perf_server_queue", "cpu_used_ram", "backend_parameter/x",
	}
	var b strings.Builder
	if err := Inference(&b, []Outcome{o}); err != nil {
		t.Fatal(err)
	}
	want := `Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Preferred Batch Sizes,Satisfies Constraints,` +
		`Throughput (infer/sec),p99 Latency (ms),Server Queue time (ms),RAM Usage (MB),backend_parameter/x
m,2,1,m_config_0,1:CPU,8,Enabled,Yes,150,5,0.3,50,
m,2,1,m_config_default,1:CPU,4,Enabled,Yes,100,5,0.3,50,
m,2,8,m_config_default,1:CPU,4,Enabled,No,200,30,0.3,50,
`
	if b.String() != want {
		t.Errorf("got\n%s", &b)
	}
}

func TestThePageIsPlain(t *testing.T) {
	var b strings.Builder
	if err := HTML(&b, []Outcome{outcome(t)}, "1"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", "\u202e", "\x1b", "http://", "https://", "src="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{
		"default-src 'none'", "prefers-color-scheme:dark", "max_batch_size: 8", "&lt;script&gt;", "measured once", "+50.0 %",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestEffects(t *testing.T) {
	o := outcome(t)
	var got []string
	for _, e := range o.Effects() {
		got = append(got, strings.Join(e.row()[1:], " "))
	}
	if len(got) != 3 || got[1] != "4 (as it is) 1 0  0" || got[2] != "8 1 0 +50.0 % 1" || !strings.HasSuffix(got[0], " 1 1  0") {
		t.Errorf("got %q", got)
	}
}

func TestText(t *testing.T) {
	o := outcome(t)
	var b strings.Builder
	o.Text(&b)
	for _, want := range []string{"m: most of it", "-max_batch_size: 4\n+max_batch_size: 8\n", "failed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if strings.ContainsAny(b.String(), "\x1b\u202e") {
		t.Errorf("%q", b.String())
	}
}
