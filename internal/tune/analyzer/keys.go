package analyzer

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nesoserve/neso/internal/tune/trial"
)

// key is what a key of the file does.
type key func(f *File, k, v *yaml.Node) error

// largest bounds numbers of a file.
const largest = 1 << 20

func number(to func(f *File) *int) key {
	return func(f *File, _, v *yaml.Node) error {
		if err := decode(f, v, to(f), "a whole number"); err != nil {
			return err
		}
		if *to(f) < 1 || *to(f) > largest {
			return f.fault(v, "expected a number from 1 to %d, found %s", largest, what(v))
		}
		return nil
	}
}

func truth(to func(f *File) *bool) key {
	return func(f *File, _, v *yaml.Node) error { return decode(f, v, to(f), "true or false") }
}

func text(to func(f *File) *string) key {
	return func(f *File, _, v *yaml.Node) error { return f.text(v, to(f)) }
}

func nothing(why string) key {
	return func(f *File, k, _ *yaml.Node) error { f.note(k, why); return nil }
}

// Why keys mean nothing here.
const (
	ownServers = "the servers are processes of this program"
	always     = "it is measured where it can be seen"
	onePage    = "the report is one page with all of it"
	ownData    = "what was measured decides how long a search takes"
	noLLM      = "language models are not measured token by token"
)

var keys = map[string]key{
	"model_repository":      text(func(f *File) *string { return &f.Repository }),
	"checkpoint_directory":  text(func(f *File) *string { return &f.Checkpoint }),
	"export_path":           text(func(f *File) *string { return &f.Export }),
	"objectives":            func(f *File, _, v *yaml.Node) error { return f.objectives(v, &f.global) },
	"constraints":           func(f *File, _, v *yaml.Node) error { return f.constraints(v, &f.global) },
	"batch_sizes":           func(f *File, _, v *yaml.Node) error { return f.numbers(v, &f.global.Batches) },
	"concurrency":           func(f *File, _, v *yaml.Node) error { return f.numbers(v, &f.global.Concurrencies) },
	"request_rate":          func(f *File, _, v *yaml.Node) error { return f.numbers(v, &f.global.Rates) },
	"perf_analyzer_flags":   func(f *File, _, v *yaml.Node) error { return f.perf(v, &f.global) },
	"triton_server_flags":   func(f *File, _, v *yaml.Node) error { return f.server(v, &f.global) },
	"latency_budget":        func(f *File, _, v *yaml.Node) error { return f.shorthand(v, trial.LatencyP99) },
	"min_throughput":        func(f *File, _, v *yaml.Node) error { return f.shorthand(v, trial.Throughput) },
	"bls_composing_models":  func(f *File, _, v *yaml.Node) error { return f.composing(v) },
	"perf_analyzer_timeout": number(func(f *File) *int { return &f.Timeout }),
	"optuna_max_trials":     number(func(f *File) *int { return &f.Trials }),
	"triton_server_environment": func(f *File, _, v *yaml.Node) error {
		return f.pairs(v, &f.global.Environment)
	},

	"run_config_search_mode":                        mode,
	"run_config_search_disable":                     truth(func(f *File) *bool { return &f.Disabled }),
	"run_config_profile_models_concurrently_enable": truth(func(f *File) *bool { return &f.Together }),
	"request_rate_search_enable":                    truth(func(f *File) *bool { return &f.SearchRate }),
	"run_config_search_max_concurrency":             number(func(f *File) *int { return &f.Concurrency.Max }),
	"run_config_search_min_concurrency":             number(func(f *File) *int { return &f.Concurrency.Min }),
	"run_config_search_max_request_rate":            number(func(f *File) *int { return &f.Rate.Max }),
	"run_config_search_min_request_rate":            number(func(f *File) *int { return &f.Rate.Min }),
	"run_config_search_max_instance_count":          number(func(f *File) *int { return &f.Instances.Max }),
	"run_config_search_min_instance_count":          number(func(f *File) *int { return &f.Instances.Min }),
	"run_config_search_max_model_batch_size":        number(func(f *File) *int { return &f.Batch.Max }),
	"run_config_search_min_model_batch_size":        number(func(f *File) *int { return &f.Batch.Min }),

	"client_protocol": func(f *File, _, v *yaml.Node) error {
		if err := f.text(v, &f.Protocol); err != nil || f.Protocol == "grpc" || f.Protocol == "http" {
			return err
		}
		return f.fault(v, "expected grpc or http, found %q", f.Protocol)
	},
	"filename_model_inference": text(func(f *File) *string { return &f.Inference }),
	"filename_model_gpu":       text(func(f *File) *string { return &f.GPU }),
	"filename_server_only":     text(func(f *File) *string { return &f.Server }),
	"inference_output_fields":  func(f *File, _, v *yaml.Node) error { return f.names(v, &f.Fields) },

	"weighting": func(f *File, k, _ *yaml.Node) error {
		return f.fault(k, "weighting stands in the models of profile_models")
	},
	"triton_launch_mode": nothing(ownServers), "triton_docker_image": nothing(ownServers), "triton_http_endpoint": nothing(ownServers),
	"triton_grpc_endpoint": nothing(ownServers), "triton_metrics_url": nothing(ownServers), "triton_server_path": nothing(ownServers),
	"triton_output_path": nothing(ownServers), "triton_docker_mounts": nothing(ownServers), "triton_docker_labels": nothing(ownServers),
	"triton_docker_shm_size": nothing(ownServers), "triton_install_path": nothing(ownServers), "triton_docker_args": nothing(ownServers),
	"reload_model_disable": nothing(ownServers), "client_max_retries": nothing(ownServers),
	"output_model_repository_path":     nothing("a server's repository is a temporary directory"),
	"override_output_model_repository": nothing("a server's repository is a temporary directory"),
	"monitoring_interval":              nothing(always), "duration_seconds": nothing(always), "collect_cpu_metrics": nothing(always),
	"always_report_gpu_metrics": nothing(always), "dcgm_disable": nothing(always),
	"gpus":                 nothing("CUDA_VISIBLE_DEVICES says which GPUs there are"),
	"gpu_output_fields":    nothing("the table has its usual columns"),
	"server_output_fields": nothing("the table has its usual columns"),
	"skip_summary_reports": nothing(onePage), "skip_detailed_reports": nothing(onePage), "num_configs_per_model": nothing(onePage),
	"num_top_model_configs": nothing(onePage), "plots": nothing(onePage), "report_model_configs": nothing(onePage),
	"output_formats":                            nothing(onePage),
	"perf_analyzer_cpu_util":                    nothing("the generator is part of this program"),
	"perf_analyzer_path":                        nothing("the generator is part of this program"),
	"perf_output":                               nothing("the generator is part of this program"),
	"perf_output_path":                          nothing("the generator is part of this program"),
	"perf_analyzer_max_auto_adjusts":            nothing("the generator is part of this program"),
	"run_config_search_max_binary_search_steps": nothing(ownData),
	"early_exit_enable":                         nothing(ownData),
	"min_percentage_of_search_space":            nothing(ownData),
	"max_percentage_of_search_space":            nothing(ownData),
	"optuna_min_trials":                         nothing(ownData),
	"optuna_early_exit_threshold":               nothing(ownData),
	"use_concurrency_formula":                   nothing(ownData),
	"concurrency_sweep_disable":                 nothing(ownData),
	"ensemble_composing_models":                 nothing("the models of an ensemble are found by themselves"),
	"cpu_only_composing_models":                 nothing("instances stay where the configurations have them"),
	"genai_perf_flags":                          nothing(noLLM),
	"config_file":                               nothing("it is this file"),
	"model_type": func(f *File, k, v *yaml.Node) error {
		if v.Value != "generic" {
			return f.fault(k, "model_type %s: %s", v.Value, noLLM)
		}
		return nil
	},
}

func (f *File) key(k, v *yaml.Node) error {
	do, ok := keys[k.Value]
	if !ok {
		return f.unknown(k, append(slices.Sorted(maps.Keys(keys)), "profile_models"))
	}
	return do(f, k, v)
}

// modes of Model Analyzer, and what they are here.
var modes = map[string]string{"brute": "brute", "quick": "quick", "optuna": "halving"}

func mode(f *File, _, v *yaml.Node) error {
	m, ok := modes[v.Value]
	if !ok {
		return f.fault(v, "expected brute, quick or optuna, found %s", what(v))
	}
	f.Mode = m
	if v.Value == "optuna" {
		f.note(v, "successive halving is used in its place")
	}
	return nil
}

// metric is one by its name there.
func (f *File) metric(n *yaml.Node) (trial.Metric, error) {
	m := trial.Metric(n.Value)
	if n.Value == "perf_latency" {
		m = trial.LatencyP99
	}
	if n.Value == "cpu_free_ram" {
		m = trial.AvailableRAM
	}
	if !m.Known() {
		return m, f.fault(n, "there is no metric %q, expected one of %v", n.Value, trial.Metrics())
	}
	return m, nil
}

func (f *File) objectives(v *yaml.Node, to *settings) error {
	to.Objectives = map[trial.Metric]float64{}
	if v.Kind == yaml.MappingNode {
		return f.each(v, func(k, v *yaml.Node) error {
			m, err := f.metric(k)
			if err != nil {
				return err
			}
			weight := 0.0
			if err := decode(f, v, &weight, "a weight"); err != nil {
				return err
			}
			if weight <= 0 || math.IsInf(weight, 0) || math.IsNaN(weight) {
				return f.fault(v, "expected a weight above 0, found %s", what(v))
			}
			to.Objectives[m] = weight
			return nil
		})
	}
	if v.Kind != yaml.SequenceNode {
		return f.fault(v, "expected a list of metrics, or metrics with weights, found %s", what(v))
	}
	for _, n := range v.Content {
		m, err := f.metric(n)
		if err != nil {
			return err
		}
		to.Objectives[m] = 1
	}
	return nil
}

func (f *File) constraints(v *yaml.Node, to *settings) error {
	to.Limits = map[trial.Metric]trial.Limit{}
	return f.each(v, func(k, v *yaml.Node) error {
		m, err := f.metric(k)
		if err != nil {
			return err
		}
		l := trial.Limit{Min: math.NaN(), Max: math.NaN()}
		err = f.each(v, func(k, v *yaml.Node) error {
			switch k.Value {
			case "min":
				return decode(f, v, &l.Min, "a number")
			case "max":
				return decode(f, v, &l.Max, "a number")
			}
			return f.unknown(k, []string{"min", "max"})
		})
		to.Limits[m] = l
		return err
	})
}

// shorthand is a limit that has a key of its own.
func (f *File) shorthand(v *yaml.Node, m trial.Metric) error {
	n := 0.0
	if err := decode(f, v, &n, "a number"); err != nil {
		return err
	}
	l := trial.Limit{Min: math.NaN(), Max: n}
	if m == trial.Throughput {
		l = trial.Limit{Min: n, Max: math.NaN()}
	}
	f.short = append(f.short, limited{m, l})
	return nil
}

// limited is a limit of a metric.
type limited struct {
	metric trial.Metric
	limit  trial.Limit
}

// mostNumbers bounds a list of numbers.
const mostNumbers = 4096

// numbers reads 4, [1, 4], "1,4" or {start: 1, stop: 9, step: 4}.
func (f *File) numbers(v *yaml.Node, to *[]int) error {
	*to = nil
	switch {
	case v.Kind == yaml.MappingNode:
		r := map[string]int{"step": 1}
		err := f.each(v, func(k, v *yaml.Node) error {
			if !slices.Contains([]string{"start", "stop", "step"}, k.Value) {
				return f.unknown(k, []string{"start", "stop", "step"})
			}
			n := 0
			err := decode(f, v, &n, "a whole number")
			r[k.Value] = n
			return err
		})
		if err != nil {
			return err
		}
		if r["start"] < 1 || r["stop"] < r["start"] || r["step"] < 1 || (r["stop"]-r["start"])/r["step"] >= mostNumbers {
			return f.fault(v, "expected start from 1 on, stop not below it and at most %d numbers", mostNumbers)
		}
		for n := r["start"]; n <= r["stop"]; n += r["step"] {
			*to = append(*to, n)
		}
		return nil
	case v.Kind == yaml.ScalarNode && v.Tag == "!!str":
		for s := range strings.SplitSeq(v.Value, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(s))
			if err != nil {
				return f.fault(v, "expected whole numbers, found %s", what(v))
			}
			*to = append(*to, n)
		}
	case v.Kind == yaml.ScalarNode:
		n := 0
		if err := decode(f, v, &n, "whole numbers"); err != nil {
			return err
		}
		*to = []int{n}
	default:
		if err := decode(f, v, to, "whole numbers"); err != nil {
			return err
		}
	}
	if len(*to) == 0 || len(*to) > mostNumbers || slices.Min(*to) < 1 {
		return f.fault(v, "expected 1 to %d numbers from 1 on", mostNumbers)
	}
	return nil
}
