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
		s.each[i] = prometheus.NewSummary(prometheus.SummaryOpts{Name: name, Help: "Latency summary in microseconds", Objectives: c.Quantiles, MaxAge: time.Minute, AgeBuckets: 5})
	}
	return s
}

// Observe takes the phases of one successful request, in nanoseconds.
func (s *Summaries) Observe(request, queue, input, infer, output int64) {
	for i, ns := range [...]int64{request, queue, input, infer, output} {
		s.each[i].Observe(float64(ns / 1000))
	}
}

func (s *Summaries) collect(ch chan<- prometheus.Metric, names, values []string, cached bool) {
	for i, name := range summaryNames {
		if i == 0 && cached {
			continue // Triton shows the request summary only without a cache
		}
		var out dto.Metric
		if s.each[i].Write(&out) != nil {
			continue // only a bad encoder fails, and there is none
		}
		quantiles := map[float64]float64{}
		for _, q := range out.GetSummary().GetQuantile() {
			quantiles[q.GetQuantile()] = q.GetValue()
		}
		desc := prometheus.NewDesc(name, "Latency summary in microseconds", names, nil)
		ch <- prometheus.MustNewConstSummary(desc, out.GetSummary().GetSampleCount(), out.GetSummary().GetSampleSum(), quantiles, values...)
	}
}
