package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/auth"
)

// The label key holds names of the auth file, never keys; a request without a
// known key counts in neso_auth_unauthenticated_total.
var (
	authAdmitted = prometheus.NewDesc("neso_auth_requests_total", "Inference requests that the quotas of a key let in", []string{"key"},
		nil)
	authRefused = prometheus.NewDesc("neso_auth_refused_total", "Requests with a known key that were refused, by reason",
		[]string{"key", "reason"}, nil)
	authInFlight        = prometheus.NewDesc("neso_auth_concurrent_requests", "Inference requests in the server", []string{"key"}, nil)
	authBytes           = prometheus.NewDesc("neso_auth_queued_bytes", "Input bytes of the requests in the server", []string{"key"}, nil)
	authAnswers         = prometheus.NewDesc("neso_auth_unread_bytes", "Bytes of answers that are not read", []string{"key"}, nil)
	authUnauthenticated = prometheus.NewDesc("neso_auth_unauthenticated_total",
		"Requests without a key (missing) or with one that nobody has (unknown)", []string{"reason"}, nil)
)

func collectAuth(ch chan<- prometheus.Metric, s *auth.Snapshot) {
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count(authUnauthenticated, s.Missing, "missing")
	count(authUnauthenticated, s.Unknown, "unknown")
	for _, k := range s.Keys {
		count(authAdmitted, k.Admitted, k.Key)
		for _, reason := range slices.Sorted(maps.Keys(k.Refused)) {
			count(authRefused, k.Refused[reason], k.Key, reason)
		}
		gauge(authInFlight, k.Requests, k.Key)
		gauge(authBytes, k.Bytes, k.Key)
		gauge(authAnswers, k.Answers, k.Key)
	}
}
