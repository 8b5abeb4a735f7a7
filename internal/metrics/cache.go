package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/responsecache"
)

// cacheFamily is a number of the response cache, which has no labels.
type cacheFamily struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(n *responsecache.Numbers) float64
}

func cacheGauge(name, help string, value func(n *responsecache.Numbers) float64) cacheFamily {
	return cacheFamily{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func cacheCounter(name, help string, value func(n *responsecache.Numbers) float64) cacheFamily {
	return cacheFamily{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, value}
}

// localCache are the names of Triton's local cache: all gauges, the counts too.
var localCache = []cacheFamily{
	cacheGauge("nv_cache_util", "Fraction of the response cache in use, 0 to 1", func(n *responsecache.Numbers) float64 {
		return float64(n.Used) / float64(n.Size)
	}),
	cacheGauge("nv_cache_num_entries", "Responses in the response cache", func(n *responsecache.Numbers) float64 {
		return float64(n.Entries)
	}),
	cacheGauge("nv_cache_num_hits", "Look-ups that found a response", func(n *responsecache.Numbers) float64 { return float64(n.Hits) }),
	cacheGauge("nv_cache_num_misses", "Look-ups that found none", func(n *responsecache.Numbers) float64 { return float64(n.Misses) }),
	cacheGauge("nv_cache_num_lookups", "Look-ups", func(n *responsecache.Numbers) float64 { return float64(n.Lookups) }),
	cacheGauge("nv_cache_num_evictions", "Responses dropped to make room", func(n *responsecache.Numbers) float64 {
		return float64(n.Evictions)
	}),
	cacheGauge("nv_cache_lookup_duration", "Microseconds of look-ups, summed", func(n *responsecache.Numbers) float64 {
		return float64(n.LookupNanos / 1000)
	}),
	cacheGauge("nv_cache_insertion_duration", "Microseconds of insertions, summed", func(n *responsecache.Numbers) float64 {
		return float64(n.InsertionNanos / 1000)
	}),
}

// remoteCache are ours: the peer's Redis cache has none.
var remoteCache = []cacheFamily{
	cacheGauge("neso_response_cache_up", "1 while the shared response cache answers", func(n *responsecache.Numbers) float64 {
		if n.Up {
			return 1
		}
		return 0
	}),
	cacheCounter("neso_response_cache_lookups_total", "Look-ups", func(n *responsecache.Numbers) float64 { return float64(n.Lookups) }),
	cacheCounter("neso_response_cache_hits_total", "Look-ups that found a response", func(n *responsecache.Numbers) float64 {
		return float64(n.Hits)
	}),
	cacheCounter("neso_response_cache_failures_total", "Operations that the shared response cache did not answer",
		func(n *responsecache.Numbers) float64 { return float64(n.Failures) }),
	cacheCounter("neso_response_cache_reconnections_total", "Times that it answered again", func(n *responsecache.Numbers) float64 {
		return float64(n.Reconnection)
	}),
	cacheCounter("neso_response_cache_dropped_total", "Responses that could not be stored", func(n *responsecache.Numbers) float64 {
		return float64(n.Dropped)
	}),
	cacheCounter("neso_response_cache_bad_values_total", "Values that were no responses of ours", func(n *responsecache.Numbers) float64 {
		return float64(n.BadEntries)
	}),
}

func collectCache(ch chan<- prometheus.Metric, n responsecache.Numbers) {
	families := remoteCache
	if n.Local {
		families = localCache
	}
	for _, f := range families {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&n))
	}
}
