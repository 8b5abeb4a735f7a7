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

// counted is a counter that every model version has.
type counted struct {
	name, help string
	value      func(s *stats.Snapshot) float64
}

func micros(d stats.Duration) float64 { return float64(d.Nanos / 1000) }

var modelCounters = []counted{
	{"nv_inference_request_success", "Requests answered without an error", func(s *stats.Snapshot) float64 {
		return float64(s.Success.Count)
	}},
	{"nv_inference_count", "Batch elements executed, cache hits excluded", func(s *stats.Snapshot) float64 {
		return float64(s.InferenceCount)
	}},
	{"nv_inference_exec_count", "Batches executed, cache hits excluded", func(s *stats.Snapshot) float64 { return float64(s.ExecutionCount) }},
}

var latencyCounters = []counted{
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

var cacheCounters = []counted{
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
func (model *Model) labels(c *Config) (names, values []string) {
	names, values = []string{"model"}, []string{valid(model.Name)}
	if !c.NoVersions {
		names, values = append(names, "version"), append(values, strconv.FormatInt(model.Version, 10))
	}
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

// idle reports whether nobody has called the model since the server began.
func (model *Model) idle() bool {
	s := &model.Numbers
	return s.Success.Count == 0 && s.Fail.Count == 0 && s.Pending == 0 && s.ExecutionCount == 0 && s.CacheHit.Count == 0
}

// collectModels sends the metrics of all models. Those whose labels are the same
// in the end, since versions are left out, or since a name or a tag had characters
// that a label cannot have, are added up: the same series twice would make the
// whole page unreadable.
func (m *Metrics) collectModels(ch chan<- prometheus.Metric, models []Model) {
	p := &page{m: m, descs: map[family]*prometheus.Desc{}}
	seen := make(map[string]int, len(models))
	var single []Model
	for i := range models {
		if m.options.Config.NoIdle && models[i].idle() {
			continue
		}
		names, values := models[i].labels(&m.options.Config)
		key := strings.Join(append(names, values...), "\x00")
		at, ok := seen[key]
		if !ok {
			seen[key] = len(single)
			single = append(single, models[i])
			continue
		}
		same := &single[at]
		same.Numbers.Add(&models[i].Numbers)
		same.Failed, same.Cached = same.Failed && models[i].Failed, same.Cached || models[i].Cached
		same.LoadTime = models[i].LoadTime // of the highest version
		same.Stuck, same.Hangs = same.Stuck+models[i].Stuck, same.Hangs+models[i].Hangs
		same.WorkerCPU, same.Workers = same.WorkerCPU+models[i].WorkerCPU, same.Workers || models[i].Workers
	}
	left := 0
	for i := range single {
		p.names, p.values = single[i].labels(&m.options.Config)
		p.collect(&single[i])
		if !p.flush(ch) {
			left++
		}
	}
	if m.options.Config.MaxSeries > 0 {
		ch <- prometheus.MustNewConstMetric(leftOut, prometheus.GaugeValue, float64(left))
	}
}

var leftOut = prometheus.NewDesc("neso_metrics_versions_left_out",
	"Versions of models without metrics, since there would be more series than neso_max_series", nil, nil)

// page gathers the metrics of one model after the other.
type page struct {
	m *Metrics
	// descs keeps descriptions for one page: to make one costs more than the metric.
	descs         map[family]*prometheus.Desc
	names, values []string // of the model
	metrics       []prometheus.Metric
	series        int // of this model
	all           int // of those that were sent
}

// flush sends what was gathered of a model, unless there would be too many series.
func (p *page) flush(ch chan<- prometheus.Metric) bool {
	limit := p.m.options.Config.MaxSeries
	fits := limit == 0 || p.all+p.series <= limit
	if fits {
		p.all += p.series
		for _, metric := range p.metrics {
			ch <- metric
		}
	}
	p.metrics, p.series = p.metrics[:0], 0
	return fits
}

// family is a metric family of which a model has a series, or with label some.
type family struct{ name, help, label, names string }

func (p *page) desc(name, help, label string) *prometheus.Desc {
	key := family{name, help, label, strings.Join(p.names, "\x00")}
	d := p.descs[key]
	if d == nil {
		names := slices.Clone(p.names)
		if label != "" {
			names = append(names, label)
		}
		d = prometheus.NewDesc(name, help, names, nil)
		p.descs[key] = d
	}
	return d
}

func (p *page) add(metric prometheus.Metric, series int) {
	p.metrics, p.series = append(p.metrics, metric), p.series+series
}

func (p *page) counter(name, help string, v float64) {
	p.add(prometheus.MustNewConstMetric(p.desc(name, help, ""), prometheus.CounterValue, v, p.values...), 1)
}

func (p *page) gauge(name, help string, v float64) {
	p.add(prometheus.MustNewConstMetric(p.desc(name, help, ""), prometheus.GaugeValue, v, p.values...), 1)
}

// labelled is a counter with one more label.
func (p *page) labelled(name, help, label, value string, v float64) {
	p.add(prometheus.MustNewConstMetric(p.desc(name, help, label), prometheus.CounterValue, v, append(slices.Clip(p.values), value)...), 1)
}

func (p *page) histogram(name, help string, h *stats.HistogramSnapshot, scale float64) {
	p.add(constHistogram(p.desc(name, help, ""), h, scale, p.values), len(h.Bounds)+3)
}

func (p *page) counters(s *stats.Snapshot, all []counted) {
	for _, f := range all {
		p.counter(f.name, f.help, f.value(s))
	}
}

func (p *page) collect(model *Model) {
	s, config := &model.Numbers, &p.m.options.Config
	for why := infer.Other; why <= infer.Backend; why++ {
		p.labelled("nv_inference_request_failure", "Requests that ended in an error", "reason", why.String(), float64(s.FailuresByCause[why]))
	}
	if model.Failed {
		return
	}
	p.counters(s, modelCounters)
	if config.CounterLatencies {
		p.counters(s, latencyCounters)
	}
	if model.Cached {
		p.counters(s, cacheCounters)
	}
	p.gauge("nv_inference_pending_request_count", "Requests accepted and not yet executing", float64(s.Pending))
	p.gauge("nv_model_load_duration_secs", "Seconds the load took", model.LoadTime.Seconds())
	p.counter("neso_warmup_runs_total", "Warm-up executions, kept out of the statistics", float64(s.Warmups))
	p.gauge("neso_instances_stuck", "Busy instances that make no progress", float64(model.Stuck))
	p.counter("neso_instance_hangs_total", "Instances interrupted by "+p.m.options.Words.Name("instance-hang-timeout"), float64(model.Hangs))
	p.counter("neso_worker_restarts_total", "Starts of worker processes in place of those that died, also those that failed",
		float64(s.Restarts))
	if model.Workers {
		p.counter("neso_worker_cpu_seconds_total", "Seconds of processors that the worker processes have used", model.WorkerCPU.Seconds())
	}
	for why, n := range s.BatchesClosed {
		if why == stats.ClosedStrategy && n == 0 {
			continue // few models have one
		}
		p.labelled("neso_batch_closed_total", "Batches by the reason why the batcher did not wait for one more request", "reason", why.String(),
			float64(n))
	}
	for output, n := range s.OddOutputs {
		p.labelled("neso_output_mismatches_total",
			"Responses whose output was missing, or had another datatype or shape than configured, and was passed on", "output", valid(output),
			float64(n))
	}
	p.counter("neso_coalesced_requests_total", "Requests answered with the execution of an identical one", float64(s.Coalesced))
	for _, h := range histograms {
		// A model that nobody calls has none of them: there are many series in each.
		if !config.OwnHistograms || h.value(s).Count() == 0 {
			continue
		}
		scale := 1.0
		if h.seconds {
			scale = 1e-9
		}
		p.histogram(h.name, h.help, h.value(s), scale)
	}
	if config.HistogramLatencies {
		p.histogram(modelconfig.FirstResponseFamily, "Milliseconds from arrival to the first response", &s.FirstResponse, 1e-6)
	}
	if model.Summaries != nil {
		model.Summaries.collect(p, model.Cached, len(config.Quantiles))
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
