package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// summaryNames are in the order of Summaries.
var summaryNames = [...]string{
	"nv_inference_request_summary_us", "nv_inference_queue_summary_us", "nv_inference_compute_input_summary_us",
	"nv_inference_compute_infer_summary_us", "nv_inference_compute_output_summary_us",
	"nv_cache_hit_summary_per_model", "nv_cache_miss_summary_per_model",
}

// Summaries are the latency summaries of one model version, in microseconds,
// over a sliding window of a minute.
type Summaries struct {
	each [len(summaryNames)]prometheus.Summary
}

// NewSummaries returns the summaries that c asks for, or nil when it asks for
// none.
func NewSummaries(c Config) *Summaries {
	if !c.SummaryLatencies {
		return nil
	}
	s := &Summaries{}
	for i, name := range summaryNames {
		s.each[i] = prometheus.NewSummary(prometheus.SummaryOpts{
			Name: name, Help: "Latency summary in microseconds", Objectives: c.Quantiles,
			MaxAge: time.Minute, AgeBuckets: 5,
		})
	}
	return s
}

// Observe takes the phases of one successful request, in nanoseconds.
func (s *Summaries) Observe(request, queue, input, infer, output int64) {
	for i, ns := range [...]int64{request, queue, input, infer, output} {
		s.each[i].Observe(float64(ns / 1000))
	}
}

// Places in Summaries.
const (
	summaryRequest = 0
	summaryQueue   = 1
	summaryHit     = 5
	summaryMiss    = 6
)

// ObserveHit takes the time in the queue and of the look-up, in nanoseconds, of
// a request that the response cache has answered.
func (s *Summaries) ObserveHit(queue, lookup int64) {
	s.each[summaryQueue].Observe(float64(queue / 1000))
	s.each[summaryHit].Observe(float64(lookup / 1000))
}

// ObserveMiss takes what look-up and insertion took, in nanoseconds.
func (s *Summaries) ObserveMiss(took int64) { s.each[summaryMiss].Observe(float64(took / 1000)) }

func (s *Summaries) collect(p *page, cached bool, quantiles int) {
	for i, name := range summaryNames {
		// Triton shows the request summary only without a cache, and those of the
		// cache only with one.
		if i == summaryRequest && cached || i >= summaryHit && !cached {
			continue
		}
		var out dto.Metric
		if s.each[i].Write(&out) != nil {
			continue // only a bad encoder fails, and there is none
		}
		shown := map[float64]float64{}
		for _, q := range out.GetSummary().GetQuantile() {
			shown[q.GetQuantile()] = q.GetValue()
		}
		p.add(prometheus.MustNewConstSummary(p.desc(name, "Latency summary in microseconds", ""), out.GetSummary().GetSampleCount(),
			out.GetSummary().GetSampleSum(), shown, p.values...), quantiles+2)
	}
}
