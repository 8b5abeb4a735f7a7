package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/generation"
)

// textFamilies are the metrics of what language models write: our name, and the one
// of vLLM's server, which autoscalers and gateways read (the model server protocol of
// the Gateway API's inference extension).
var textFamilies = []struct {
	name, field, help string
	kind              prometheus.ValueType
	value             func(n *generation.Numbers) float64
}{
	{
		"neso_generation_waiting", "vllm:num_requests_waiting", "Texts of which nothing has been written yet", prometheus.GaugeValue,
		func(n *generation.Numbers) float64 { return float64(n.Waiting) },
	},
	{
		"neso_generation_running", "vllm:num_requests_running", "Texts that are being written", prometheus.GaugeValue,
		func(n *generation.Numbers) float64 { return float64(n.Running) },
	},
	{
		"neso_generation_prompt_tokens_total", "vllm:prompt_tokens_total", "Tokens of prompts, as the model counts them", prometheus.CounterValue,
		func(n *generation.Numbers) float64 { return float64(n.Prompt) },
	},
	{
		"neso_generation_tokens_total", "vllm:generation_tokens_total", "Tokens written, as the model counts them", prometheus.CounterValue,
		func(n *generation.Numbers) float64 { return float64(n.Tokens) },
	},
}

var textHistograms = []struct {
	name, field, help string
	bounds            []float64
	value             func(n *generation.Numbers) *generation.Histogram
}{
	{
		"neso_generation_first_token_seconds", "vllm:time_to_first_token_seconds", "Time from arrival to the first piece of text",
		generation.FirstBounds, func(n *generation.Numbers) *generation.Histogram { return &n.First },
	},
	{
		"neso_generation_between_tokens_seconds", "vllm:inter_token_latency_seconds", "Time from one piece of text to the next",
		generation.BetweenBounds, func(n *generation.Numbers) *generation.Histogram { return &n.Between },
	},
}

var textsBeyond = prometheus.NewDesc("neso_generation_uncounted_total",
	"Texts of versions of models beyond those that the other metrics of generation have room for", nil, nil)

// collectTexts sends both names of each. vLLM's have no versions, so that those of a
// model are added up; with together so are ours.
//
// A model may publish its own under vLLM's names, as NVIDIA's backend for vLLM does: then these
// stand, and a second family of one name would spoil the page.
func collectTexts(ch chan<- prometheus.Metric, book *generation.Book, published []Custom, together bool) {
	all := book.Snapshot()
	if n := book.Beyond(); n > 0 {
		ch <- prometheus.MustNewConstMetric(textsBeyond, prometheus.CounterValue, float64(n))
	}
	var models []generation.Numbers
	for i := range all {
		n := &all[i]
		if !together {
			sendTexts(ch, n, nil, []string{"model", "version"}, valid(n.Model), strconv.FormatInt(n.Version, 10))
		}
		if last := len(models) - 1; last >= 0 && valid(models[last].Model) == valid(n.Model) {
			models[last].Add(n)
		} else {
			models = append(models, *n)
		}
	}
	taken := map[string]bool{}
	for i := range published {
		taken[published[i].Name] = true
	}
	for i := range models {
		sendTexts(ch, &models[i], taken, []string{"model_name"}, valid(models[i].Model))
		if together {
			sendTexts(ch, &models[i], nil, []string{"model"}, valid(models[i].Model))
		}
	}
}

// sendTexts sends the numbers under vLLM's names but those that are taken, or, if that is nil, under
// ours.
func sendTexts(ch chan<- prometheus.Metric, n *generation.Numbers, taken map[string]bool, names []string, values ...string) {
	name := func(own, field string) string {
		if taken == nil {
			return own
		}
		return field
	}
	for _, f := range textFamilies {
		if taken[f.field] {
			continue
		}
		desc := prometheus.NewDesc(name(f.name, f.field), f.help, names, nil)
		ch <- prometheus.MustNewConstMetric(desc, f.kind, f.value(n), values...)
	}
	for _, f := range textHistograms {
		if taken[f.field] {
			continue
		}
		h, count, buckets := f.value(n), uint64(0), map[float64]uint64{}
		for i, bound := range f.bounds {
			if h.Counts != nil {
				count += h.Counts[i]
			}
			buckets[bound] = count
		}
		if h.Counts != nil {
			count += h.Counts[len(f.bounds)]
		}
		desc := prometheus.NewDesc(name(f.name, f.field), f.help, names, nil)
		ch <- prometheus.MustNewConstHistogram(desc, count, h.Sum, buckets, values...)
	}
}
