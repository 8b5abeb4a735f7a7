package analyzer

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nesoserve/neso/internal/tune/trial"
)

// models reads profile_models: a list of names and of models with keys, such models alone,
// or names with commas.
func (f *File) models(v *yaml.Node) error {
	switch v.Kind {
	case yaml.MappingNode:
		return f.each(v, f.model)
	case yaml.SequenceNode:
		for _, n := range v.Content {
			if n.Kind == yaml.AliasNode {
				n = n.Alias
			}
			if n.Kind == yaml.MappingNode {
				if err := f.each(n, f.model); err != nil {
					return err
				}
			} else if err := f.model(n, nil); err != nil {
				return err
			}
		}
		return nil
	default:
		var all []string
		if err := f.names(v, &all); err != nil {
			return err
		}
		for _, name := range all {
			if err := f.model(&yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: v.Line}, nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// model reads one. What it says of itself stands in place of what is said of all.
func (f *File) model(k, v *yaml.Node) error {
	if k.Kind != yaml.ScalarNode || k.Value == "" || k.Tag == "!!null" {
		return f.fault(k, "expected the name of a model, found %s", what(k))
	}
	if slices.ContainsFunc(f.Models, func(m Model) bool { return m.Name == k.Value }) {
		return f.fault(k, "the model %q is there twice", k.Value)
	}
	m := Model{Name: k.Value, Weight: 1, settings: f.global}
	m.Perf, m.Flags, m.Environment = slices.Clone(m.Perf), slices.Clone(m.Flags), slices.Clone(m.Environment)
	m.Limits = maps.Clone(m.Limits)
	if v != nil && v.Tag != "!!null" {
		if err := f.each(v, func(k, v *yaml.Node) error { return f.ofModel(&m, k, v) }); err != nil {
			return err
		}
	}
	for _, s := range f.short {
		m.Limits[s.metric] = s.limit
	}
	if len(m.Objectives) == 0 {
		m.Objectives = map[trial.Metric]float64{trial.Throughput: 1}
	}
	f.Models = append(f.Models, m)
	return nil
}

var modelKeys = []string{
	"cpu_only", "parameters", "objectives", "constraints", "weighting", "model_config_parameters", "perf_analyzer_flags", "genai_perf_flags",
	"triton_server_flags", "triton_server_environment", "triton_docker_args",
}

func (f *File) ofModel(m *Model, k, v *yaml.Node) error {
	switch k.Value {
	case "parameters":
		return f.each(v, func(k, v *yaml.Node) error {
			switch k.Value {
			case "batch_sizes":
				return f.numbers(v, &m.Batches)
			case "concurrency":
				return f.numbers(v, &m.Concurrencies)
			case "request_rate":
				return f.numbers(v, &m.Rates)
			}
			return f.unknown(k, []string{"batch_sizes", "concurrency", "request_rate"})
		})
	case "objectives":
		return f.objectives(v, &m.settings)
	case "constraints":
		return f.constraints(v, &m.settings)
	case "weighting":
		if err := decode(f, v, &m.Weight, "a weight"); err != nil {
			return err
		}
		if m.Weight <= 0 {
			return f.fault(v, "expected a weight above 0, found %s", what(v))
		}
		return nil
	case "model_config_parameters":
		return f.sweeps(v, m)
	case "perf_analyzer_flags":
		return f.perf(v, &m.settings)
	case "triton_server_flags":
		return f.server(v, &m.settings)
	case "triton_server_environment":
		return f.pairs(v, &m.Environment)
	case "cpu_only":
		f.note(k, "instances stay where the configuration has them")
		return nil
	case "triton_docker_args":
		f.note(k, ownServers)
		return nil
	case "genai_perf_flags":
		f.note(k, noLLM)
		return nil
	}
	return f.unknown(k, modelKeys)
}

// composing reads the models that others call: names, or models with keys, of which the
// names count.
func (f *File) composing(v *yaml.Node) error {
	add := func(k, v *yaml.Node) error {
		if v != nil && v.Tag != "!!null" {
			f.note(k, "the knobs of composing models are those of the others")
		}
		f.Composing = append(f.Composing, k.Value)
		return nil
	}
	switch v.Kind {
	case yaml.MappingNode:
		return f.each(v, add)
	case yaml.SequenceNode:
		for _, n := range v.Content {
			if n.Kind == yaml.MappingNode {
				if err := f.each(n, add); err != nil {
					return err
				}
				continue
			}
			if err := add(n, nil); err != nil {
				return err
			}
		}
		return nil
	default:
		return f.names(v, &f.Composing)
	}
}

// pairs reads names with texts, in place of or beside those that are there.
func (f *File) pairs(v *yaml.Node, to *[]Flag) error {
	return f.each(v, func(k, v *yaml.Node) error {
		value := ""
		if err := f.text(v, &value); err != nil {
			return err
		}
		*to = append(slices.DeleteFunc(*to, func(p Flag) bool { return p.Name == k.Value }), Flag{k.Value, value})
		return nil
	})
}

// perfNames are flags of perf_analyzer that have another name here.
var perfNames = map[string]string{"model-version": "-x", "protocol": "-i", "http-header": "-H"}

// said are flags that this program says itself.
var said = []string{
	"model-name", "url", "latency-report-file", "verbose", "extra-verbose", "verbose-csv", "concurrency-range", "request-rate-range",
	"request-intervals", "batch-size", "service-kind", "triton-server-directory", "model-repository", "metrics-url", "binary-search",
}

// perf reads the flags of the generator.
func (f *File) perf(v *yaml.Node, to *settings) error {
	return f.each(v, func(k, v *yaml.Node) error {
		if slices.Contains(said, k.Value) {
			f.note(k, "this program says it itself")
			return nil
		}
		name, short := perfNames[k.Value]
		if !short {
			name = "--" + k.Value
		}
		to.Perf = slices.DeleteFunc(to.Perf, func(p Flag) bool { return p.Name == name })
		var values []string
		if v.Kind == yaml.SequenceNode {
			if err := decode(f, v, &values, "texts"); err != nil {
				return err
			}
		} else {
			var text string
			if err := f.text(v, &text); err != nil {
				return err
			}
			values = []string{text}
		}
		for _, value := range values {
			to.Perf = append(to.Perf, Flag{name, value})
		}
		return nil
	})
}

// own are options of the server that this program gives it.
var own = []string{
	"model-repository", "model-store", "model-control-mode", "load-model", "allow-http", "http-address", "http-port", "allow-grpc",
	"grpc-address", "grpc-port", "allow-metrics", "metrics-address", "metrics-port", "exit-timeout-secs", "exit-on-error",
	"repository-poll-secs",
	"http-restricted-api", "grpc-restricted-protocol", "grpc-use-ssl", "grpc-use-ssl-mutual", "grpc-server-cert", "grpc-server-key",
	"grpc-root-cert", "log-file",
}

// server reads the options of the server.
func (f *File) server(v *yaml.Node, to *settings) error {
	return f.each(v, func(k, v *yaml.Node) error {
		name := strings.ReplaceAll(k.Value, "_", "-")
		if slices.Contains(own, name) {
			f.note(k, "this program says it itself")
			return nil
		}
		value := ""
		if err := f.text(v, &value); err != nil {
			return err
		}
		to.Flags = append(slices.DeleteFunc(to.Flags, func(p Flag) bool { return p.Name == name }), Flag{name, value})
		return nil
	})
}
