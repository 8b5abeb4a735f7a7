package analyzer

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/tune/trial"
)

const whole = `
model_repository: /models
checkpoint_directory: /out
export_path: /csv
run_config_search_mode: optuna
run_config_search_max_concurrency: 16
run_config_search_min_instance_count: 2
optuna_max_trials: 30
triton_launch_mode: docker
gpus: [0]
client_protocol: http
batch_sizes: 1,4
latency_budget: 20
objectives:
  perf_throughput: 10
  perf_latency_p99: 5
perf_analyzer_flags:
  percentile: 95
  shape: ["A:1", "B:2"]
  url: x
triton_server_flags:
  backend-config: "python,x=1"
  http_port: 9
triton_server_environment: {A: 1}
inference_output_fields: [model_name, perf_throughput]
profile_models:
  - plain
  - other:
      weighting: 3
      objectives: [cpu_used_ram]
      constraints:
        perf_throughput: {min: 5}
        gpu_used_memory: {max: 100}
      parameters:
        batch_sizes: [2]
        concurrency: {start: 2, stop: 8, step: 3}
      perf_analyzer_flags: {percentile: 50}
      model_config_parameters:
        max_batch_size: [4, 8]
        dynamic_batching:
          preferred_batch_size: [[4], [8, 16]]
          max_queue_delay_microseconds: [100, 200]
        instance_group:
        - kind: KIND_CPU
          count: [1, 2]
        parameters:
          threads:
            string_value: [1, "2"]
`

func TestParse(t *testing.T) {
	f, err := Parse([]byte(whole), "m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprint(f.Repository, f.Checkpoint, f.Export, f.Mode, f.Concurrency, f.Instances, f.Trials, f.Protocol, f.Fields)
	if head != "/models/out/csvhalving{1 16} {2 5} 30http[model_name perf_throughput]" {
		t.Error(head)
	}
	var notes []string
	for _, n := range f.Notes {
		notes = append(notes, strings.Fields(n)[1])
	}
	if got := strings.Join(notes, " "); got != "optuna triton_launch_mode gpus url http_port" {
		t.Error(got)
	}
	var models []string
	for _, m := range f.Models {
		var limits []string
		for _, metric := range slices.Sorted(maps.Keys(m.Limits)) {
			limits = append(limits, fmt.Sprintf("%s %v", metric, m.Limits[metric]))
		}
		models = append(models, fmt.Sprint(m.Name, m.Weight, m.Objectives, limits, m.Batches, m.Concurrencies, m.Perf, m.Flags, m.Environment))
	}
	got := strings.Join(models, "\n")
	flags := " [{backend-config python,x=1}] [{A 1}]"
	if got != "plain1 map[perf_latency_p99:5 perf_throughput:10] [perf_latency_p99 {NaN 20}] [1 4] [] "+
		"[{--percentile 95} {--shape A:1} {--shape B:2}]"+flags+"\n"+
		"other3 map[cpu_used_ram:1] [gpu_used_memory {NaN 100} perf_latency_p99 {NaN 20} perf_throughput {5 NaN}] [2] [2 5 8] "+
		"[{--shape A:1} {--shape B:2} {--percentile 50}]"+flags {
		t.Error(got)
	}
	var fields []string
	for _, v := range f.Models[1].Vary {
		fields = append(fields, fmt.Sprintf("%s %s", v.Name, v.Values))
	}
	if got := strings.Join(fields, "\n"); got != `max_batch_size [4 8]
dynamic_batching [{"max_queue_delay_microseconds":100,"preferred_batch_size":[4]} {"max_queue_delay_microseconds":200,"preferred_batch_size":[4]} `+
		`{"max_queue_delay_microseconds":100,"preferred_batch_size":[8,16]} {"max_queue_delay_microseconds":200,"preferred_batch_size":[8,16]}]
instance_group [[{"count":1,"kind":"KIND_CPU"}] [{"count":2,"kind":"KIND_CPU"}]]
parameters.threads ["1" "2"]` {
		t.Error(got)
	}
	if l := f.Models[0].Limits[trial.LatencyP99]; l.Max != 20 || !math.IsNaN(l.Min) {
		t.Errorf("the budget: %v", l)
	}
}

func TestMerge(t *testing.T) {
	f, err := Parse([]byte(`
perf_analyzer_flags: &flags {percentile: 95, shape: "A:1"}
profile_models:
  a:
    perf_analyzer_flags: {<<: *flags, percentile: 50}
  b:
    perf_analyzer_flags:
      <<: [{percentile: 90}, *flags]
`), "f")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Models[0].Perf, f.Models[1].Perf); got != "[{--percentile 50} {--shape A:1}] [{--percentile 90} {--shape A:1}]" {
		t.Error(got)
	}
	if _, err := Parse([]byte("perf_analyzer_flags: {<<: 5}"), "f"); err == nil || !strings.Contains(err.Error(), "to merge, found \"5\"") {
		t.Error(err)
	}
	if _, err := Parse([]byte("perf_analyzer_flags: &x {<<: *x}"), "f"); err != nil {
		t.Error(err)
	}
}

func TestObjectivesOfPhases(t *testing.T) {
	f, err := Parse([]byte("objectives: [perf_server_queue, perf_client_send_recv]\nprofile_models: a"), "f")
	if err != nil || len(f.Models[0].Objectives) != 2 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestModelsByName(t *testing.T) {
	for _, text := range []string{"profile_models: a, b", "profile_models: [a, b]", "profile_models: {a: , b: {cpu_only: true}}"} {
		f, err := Parse([]byte(text), "f")
		if err != nil || len(f.Models) != 2 || f.Models[1].Name != "b" {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "f:1: expected keys"},
		{"[", "f: yaml: line 1"},
		{"- a", "f:1: expected keys with values, found a list"},
		{"a: 1\nb: 2", `f:1: there is no key "a"`},
		{"batch_sizes: 1\nbatch_sizes: 2", `f:2: the key "batch_sizes" is there twice`},
		{"batch_size: 1", `f:1: there is no key "batch_size", did you mean "batch_sizes"?`},
		{"batch_sizes: many", `f:1: expected whole numbers, found "many"`},
		{"batch_sizes: 0", "f:1: expected 1 to 4096 numbers from 1 on"},
		{"concurrency: {start: 4, stop: 1}", "f:1: expected start from 1 on"},
		{"concurrency: {start: 1, stop: 1000000000}", "at most 4096 numbers"},
		{"run_config_search_mode: slow", `f:1: expected brute, quick or optuna, found "slow"`},
		{"run_config_search_disable: maybe", `f:1: expected true or false, found "maybe"`},
		{"run_config_search_max_concurrency: -1", "f:1: expected a number from 1 to 1048576"},
		{"run_config_search_max_instance_count: 9000000000000000000", "f:1: expected a number from 1 to 1048576"},
		{
			"run_config_search_min_instance_count: 6",
			"f: run_config_search_min_instance_count is 6, and run_config_search_max_instance_count 5: expected no more than that",
		},
		{"weighting: 3", "f:1: weighting stands in the models"},
		{"objectives: [speed]", `f:1: there is no metric "speed"`},
		{"objectives: {perf_throughput: 0}", "f:1: expected a weight above 0"},
		{"constraints: {perf_throughput: {least: 1}}", `f:1: there is no key "least"`},
		{"constraints:\n  time_to_first_token_avg:\n    max: 1", `f:2: there is no metric "time_to_first_token_avg"`},
		{"model_type: LLM", "f:1: model_type LLM"},
		{"client_protocol: udp", `f:1: expected grpc or http, found "udp"`},
		{"profile_models: [a, a]", `f:1: the model "a" is there twice`},
		{"profile_models: {a: {speed: 1}}", `f:1: there is no key "speed"`},
		{"profile_models: [[a]]", "f:1: expected the name of a model, found a list"},
		{"profile_models:\n a:\n  model_config_parameters:\n   max_batch: 1", `f:4: a configuration has no field "max_batch"`},
		{"profile_models: {a: {model_config_parameters: {max_batch_size: [x]}}}", "f:1: max_batch_size"},
		{"profile_models: {a: {model_config_parameters: {parameters: {k: 1}}}}", "f:1: k: expected keys with values"},
		{"profile_models: {a: {model_config_parameters: {instance_group: {counts: 1}}}}", `no field "instance_group.counts"`},
	} {
		_, err := Parse([]byte(c.text), "f")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// A file of some kilobytes can ask for more than a machine holds.
func TestProductsAreBounded(t *testing.T) {
	many := "[1" + strings.Repeat(", 1", mostValues-1) + "]"
	text := "profile_models: {a: {model_config_parameters: {instance_group: {count: " + many + ", name: " + many + "}}}}"
	if _, err := Parse([]byte(text), "f"); err == nil || !strings.Contains(err.Error(), "more than 10000 values") {
		t.Errorf("got %v", err)
	}
}

func TestTheExampleOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/use/tune.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(text), "```yaml\n")
	example, _, end := strings.Cut(example, "```")
	f, err := Parse([]byte(example), "tune.md")
	if !ok || !end || err != nil || len(f.Notes) > 0 || len(f.Models) != 1 || len(f.Models[0].Vary[0].Values) != 2 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.yaml")
	if _, err := Read(path); err == nil {
		t.Error("a file that is not there")
	}
	if err := os.WriteFile(path, make([]byte, mostBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// FuzzParse: whatever a file has, there is an answer, and it is bounded.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("profile_models: {a: {model_config_parameters: {instance_group: &x [*x]}}}")
	f.Add("batch_sizes: &x {<<: [*x, {start: 1}]}")
	f.Add("profile_models: {a: {model_config_parameters: {input: [{dims: [[1],[2]]}]}}}")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Parse([]byte(text), "f") })
}
