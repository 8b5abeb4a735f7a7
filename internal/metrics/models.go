package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
)

// family is a metric family that every model version has.
type family struct {
	name, help string
	value      func(s *stats.Snapshot) float64
}

func micros(d stats.Duration) float64 { return float64(d.Nanos / 1000) }

var modelCounters = []family{
	{"nv_inference_request_success", "Requests answered without an error", func(s *stats.Snapshot) float64 {
		return float64(s.Success.Count)
	}},
	{"nv_inference_count", "Batch elements executed, cache hits excluded", func(s *stats.Snapshot) float64 {
		return float64(s.InferenceCount)
	}},
	{"nv_inference_exec_count", "Batches executed, cache hits excluded", func(s *stats.Snapshot) float64 { return float64(s.ExecutionCount) }},
}

var latencyCounters = []family{
	{"nv_inference_request_duration_us", "Microseconds from arrival to completion, summed", func(s *stats.Snapshot) float64 {
		return micros(s.Success)
	}},
	{"nv_inference_queue_duration_us", "Microseconds in the scheduler's queue, summed", func(s *stats.Snapshot) float64 {
		return micros(s.Queue)
	}},
	{"nv_inference_compute_input_duration_us", "Microseconds preparing inputs, summed", func(s *stats.Snapshot) float64 {
		return micros(s.ComputeInput)
	}},
	{"nv_inference_compute_infer_duration_us", "Microseconds inside the model, summed", func(s *stats.Snapshot) float64 {
		return micros(s.ComputeInfer)
	}},
	{"nv_inference_compute_output_duration_us", "Microseconds taking outputs, summed", func(s *stats.Snapshot) float64 {
		return micros(s.ComputeOutput)
	}},
}

var cacheCounters = []family{
	{"nv_cache_num_hits_per_model", "Requests answered from the response cache", func(s *stats.Snapshot) float64 {
		return float64(s.CacheHit.Count)
	}},
	{"nv_cache_num_misses_per_model", "Requests not found in the response cache", func(s *stats.Snapshot) float64 {
		return float64(s.CacheMiss.Count)
	}},
	{"nv_cache_hit_duration_per_model", "Microseconds of look-ups that hit, summed", func(s *stats.Snapshot) float64 {
		return micros(s.CacheHit)
	}},
	{"nv_cache_miss_duration_per_model", "Microseconds of look-ups that missed and of insertions, summed", func(s *stats.Snapshot) float64 {
		return micros(s.CacheMiss)
	}},
}

// ours are the histograms Triton lacks: each phase, and the batch size.
var histograms = []struct {
	name, help string
	seconds    bool
	value      func(s *stats.Snapshot) *stats.HistogramSnapshot
}{
	{"neso_request_duration_seconds", "Time from arrival to the final response", true, func(s *stats.Snapshot) *stats.HistogramSnapshot {
		return &s.RequestTime
	}},
	{"neso_queue_duration_seconds", "Time in the scheduler's queue", true, func(s *stats.Snapshot) *stats.HistogramSnapshot {
		return &s.QueueTime
	}},
	{"neso_compute_input_duration_seconds", "Time preparing inputs", true, func(s *stats.Snapshot) *stats.HistogramSnapshot {
		return &s.InputTime
	}},
	{"neso_compute_infer_duration_seconds", "Time inside the model", true, func(s *stats.Snapshot) *stats.HistogramSnapshot {
		return &s.InferTime
	}},
	{"neso_compute_output_duration_seconds", "Time taking outputs", true, func(s *stats.Snapshot) *stats.HistogramSnapshot {
		return &s.OutputTime
	}},
	{"neso_batch_size", "Elements per executed batch", false, func(s *stats.Snapshot) *stats.HistogramSnapshot { return &s.BatchSize }},
}

// labels are the names and values of those that all metrics of a model have.
func (model *Model) labels() (names, values []string) {
	names = []string{"model", "version"}
	values = []string{valid(model.Name), strconv.FormatInt(model.Version, 10)}
	if model.Namespace != "" {
		names, values = append(names, "namespace"), append(values, valid(model.Namespace))
	}
	for _, k := range slices.Sorted(maps.Keys(model.Tags)) {
		if name := labelName(k); !slices.Contains(names, name) {
			names = append(names, name)
			values = append(values, valid(model.Tags[k]))
		}
	}
	return names, values
}

// collectModels sends the metrics of all models. Those whose labels are the same
// in the end, since a name or a tag had characters that a label cannot have, are
// added up: the same series twice would make the whole page unreadable.
func (m *Metrics) collectModels(ch chan<- prometheus.Metric, models []Model) {
	seen := make(map[string]int, len(models))
	var single []Model
	for i := range models {
		names, values := models[i].labels()
		key := strings.Join(append(names, values...), "\x00")
		at, ok := seen[key]
		if !ok {
			seen[key] = len(single)
			single = append(single, models[i])
			continue
		}
		same := &single[at]
		same.Numbers.Add(&models[i].Numbers)
		same.Failed = same.Failed && models[i].Failed
		same.Stuck, same.Hangs = same.Stuck+models[i].Stuck, same.Hangs+models[i].Hangs
	}
	for i := range single {
		m.collectModel(ch, &single[i])
	}
}

func (m *Metrics) collectModel(ch chan<- prometheus.Metric, model *Model) {
	names, values := model.labels()
	s := &model.Numbers
	emit := func(f family, kind prometheus.ValueType) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(f.name, f.help, names, nil), kind, f.value(s), values...)
	}
	failure := prometheus.NewDesc("nv_inference_request_failure", "Requests that ended in an error", append(slices.Clip(names), "reason"), nil)
	for why := infer.Other; why <= infer.Backend; why++ {
		ch <- prometheus.MustNewConstMetric(failure, prometheus.CounterValue, float64(s.FailuresByCause[why]),
			append(slices.Clip(values), why.String())...)
	}
	if model.Failed {
		return
	}
	for _, f := range modelCounters {
		emit(f, prometheus.CounterValue)
	}
	if m.options.Config.CounterLatencies {
		for _, f := range latencyCounters {
			emit(f, prometheus.CounterValue)
		}
	}
	if model.Cached {
		for _, f := range cacheCounters {
			emit(f, prometheus.CounterValue)
		}
	}
	emit(family{"nv_inference_pending_request_count", "Requests accepted and not yet executing", func(s *stats.Snapshot) float64 {
		return float64(s.Pending)
	}}, prometheus.GaugeValue)
	emit(family{"nv_model_load_duration_secs", "Seconds the load took", func(*stats.Snapshot) float64 {
		return model.LoadTime.Seconds()
	}}, prometheus.GaugeValue)
	emit(family{"neso_warmup_runs_total", "Warm-up executions, kept out of the statistics", func(s *stats.Snapshot) float64 {
		return float64(s.Warmups)
	}}, prometheus.CounterValue)
	emit(family{"neso_instances_stuck", "Busy instances that make no progress", func(*stats.Snapshot) float64 {
		return float64(model.Stuck)
	}}, prometheus.GaugeValue)
	emit(family{"neso_instance_hangs_total", "Instances interrupted by " +
		m.options.Words.Name("instance-hang-timeout"), func(*stats.Snapshot) float64 { return float64(model.Hangs) }}, prometheus.CounterValue)
	emit(family{
		"neso_worker_restarts_total", "Starts of worker processes in place of those that died, also those that failed",
		func(s *stats.Snapshot) float64 { return float64(s.Restarts) },
	}, prometheus.CounterValue)
	closed := prometheus.NewDesc("neso_batch_closed_total", "Batches by the reason why the batcher did not wait for one more request",
		append(slices.Clip(names), "reason"), nil)
	for why, n := range s.BatchesClosed {
		if why == stats.ClosedStrategy && n == 0 {
			continue // few models have one
		}
		ch <- prometheus.MustNewConstMetric(closed, prometheus.CounterValue, float64(n), append(slices.Clip(values), why.String())...)
	}
	odd := prometheus.NewDesc("neso_output_mismatches_total",
		"Responses whose output was missing, or had another datatype or shape than configured, and was passed on",
		append(slices.Clip(names), "output"), nil)
	for output, n := range s.OddOutputs {
		ch <- prometheus.MustNewConstMetric(odd, prometheus.CounterValue, float64(n), append(slices.Clip(values), valid(output))...)
	}
	emit(family{"neso_coalesced_requests_total", "Requests answered with the execution of an identical one", func(s *stats.Snapshot) float64 {
		return float64(s.Coalesced)
	}}, prometheus.CounterValue)
	for _, h := range histograms {
		// A model that nobody calls has none of them: there are many series in each.
		if !m.options.Config.OwnHistograms || h.value(s).Count() == 0 {
			continue
		}
		scale := 1.0
		if h.seconds {
			scale = 1e-9
		}
		ch <- constHistogram(prometheus.NewDesc(h.name, h.help, names, nil), h.value(s), scale, values)
	}
	if m.options.Config.HistogramLatencies {
		ch <- constHistogram(prometheus.NewDesc(modelconfig.FirstResponseFamily, "Milliseconds from arrival to the first response", names, nil),
			&s.FirstResponse, 1e-6, values)
	}
	if model.Summaries != nil {
		model.Summaries.collect(ch, names, values, model.Cached)
	}
}

// valid makes text of what may be any bytes, such as the name of a directory:
// the library does not take other label values.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// labelName returns the label of a model's tag, with what a label cannot have
// replaced: one wrong name would make the whole page unreadable.
func labelName(tag string) string {
	return "_" + strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tag)
}

func constHistogram(desc *prometheus.Desc, h *stats.HistogramSnapshot, scale float64, labels []string) prometheus.Metric {
	cumulative := make(map[float64]uint64, len(h.Bounds))
	n := uint64(0)
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		cumulative[roundBound(float64(bound)*scale)] = n
	}
	return prometheus.MustNewConstHistogram(desc, h.Count(), float64(h.Sum)*scale, cumulative, labels...)
}

// roundBound takes away what scaling adds behind the twelfth digit, so that le
// prints as 0.00025 and not as 0.00025000000000000001.
func roundBound(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	return r
}

func collectCustom(ch chan<- prometheus.Metric, c Custom) {
	names := slices.Sorted(maps.Keys(c.Labels))
	values := make([]string, len(names))
	for i, n := range names {
		values[i] = c.Labels[n]
	}
	desc := prometheus.NewDesc(c.Name, c.Help, names, nil)
	var metric prometheus.Metric
	var err error
	if c.Kind == prometheus.UntypedValue {
		cumulative, n := map[float64]uint64{}, uint64(0)
		for i, count := range c.Counts {
			n += count
			if i < len(c.Bounds) {
				cumulative[c.Bounds[i]] = n
			}
		}
		metric, err = prometheus.NewConstHistogram(desc, n, c.Sum, cumulative, values...)
	} else {
		metric, err = prometheus.NewConstMetric(desc, c.Kind, c.Value, values...)
	}
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	ch <- metric
}
