package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/residency"
)

var (
	demandModels = prometheus.NewDesc("neso_on_demand_models",
		"Models by state: loading, in memory, leaving it; out are those that have been asked for before", []string{"state"}, nil)
	demandIncomplete = prometheus.NewDesc("neso_on_demand_incomplete_models",
		"Models in memory that came back without what does not load any more", nil, nil)
	demandWaiting = prometheus.NewDesc("neso_on_demand_waiting_requests", "Requests that wait for a model to be loaded", nil, nil)
	demandQueued  = prometheus.NewDesc("neso_on_demand_queued_models", "Models whose load waits for memory or its turn", nil, nil)
	demandMemory  = prometheus.NewDesc("neso_on_demand_memory_bytes", "Memory of the models that are in, come in or leave", nil, nil)
	demandLimit   = prometheus.NewDesc("neso_on_demand_memory_limit_bytes", "What all models may have together; 0 for any number", nil, nil)
	demandLoads   = prometheus.NewDesc("neso_on_demand_loads_total", "Loads that requests have caused, by outcome", []string{"outcome"}, nil)
	demandEvicts  = prometheus.NewDesc("neso_on_demand_evictions_total", "Models that left memory, by reason", []string{"reason"}, nil)
	demandRefuse  = prometheus.NewDesc("neso_on_demand_refused_requests_total", "Requests that got no model, by reason",
		[]string{"reason"}, nil)
	demandWaits = prometheus.NewDesc("neso_on_demand_wait_seconds", "How long requests have waited for models", nil, nil)
)

func collectDemand(ch chan<- prometheus.Metric, n ondemand.Numbers) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for state, models := range n.Models {
		gauge(demandModels, float64(models), residency.State(state).String())
	}
	gauge(demandIncomplete, float64(n.Incomplete))
	gauge(demandWaiting, float64(n.Waiting))
	gauge(demandQueued, float64(n.Queued))
	gauge(demandMemory, float64(n.Bytes))
	gauge(demandLimit, float64(n.Limit))
	count(demandLoads, n.Loads, "loaded")
	count(demandLoads, n.Failures, "failed")
	count(demandEvicts, n.EvictedForMemory, "memory")
	count(demandEvicts, n.EvictedForIdle, "idle")
	count(demandRefuse, n.RefusedFull, "waiting")
	count(demandRefuse, n.RefusedMemory, "memory")
	count(demandRefuse, n.RefusedFailed, "failed")
	count(demandRefuse, n.TimedOut, "timeout")
	ch <- prometheus.MustNewConstSummary(demandWaits, n.Waits, n.Waited.Seconds(), nil)
}
