//go:build cgo

package native

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
)

// Family is a family of custom metrics that a library in neso-host has made: it is the
// server's, which shows it.
type Family struct {
	server measurer
	number uint64
}

// measurer is a server that takes metrics: that of backends, and that of a cache.
type measurer interface {
	Measure(m host.Metric, answer any) error
}

// kindWords are the words of the kinds in the worker protocol.
var kindWords = map[backend.MetricKind]string{backend.Counter: "counter", backend.Gauge: "gauge", backend.Histogram: "histogram"}

// NewFamily makes one in the server; here is false where this process is not a neso-host
// with backends or a cache.
func NewFamily(f backend.MetricFamily) (made *Family, here bool, err error) {
	j := hosted.Load()
	if j == nil {
		return nil, false, nil
	}
	server, ok := j.server.(measurer)
	if !ok {
		return nil, false, nil
	}
	var answer struct {
		Family uint64 `json:"family"`
	}
	err = server.Measure(host.Metric{Op: "family", Name: f.Name, Description: f.Description, Kind: kindWords[f.Kind]}, &answer)
	return &Family{server, answer.Family}, true, err
}

// Release has the server forget the family, with all its metrics.
func (f *Family) Release() {
	_ = f.server.Measure(host.Metric{Op: "release", Family: f.number}, nil) // a server that is gone has forgotten it
}

// Metric returns the metric with the labels.
func (f *Family) Metric(described backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	var answer struct {
		Metric uint64 `json:"metric"`
	}
	m := host.Metric{Op: "create", Family: f.number, Labels: labels}
	for _, b := range described.Buckets {
		m.Buckets = append(m.Buckets, host.Number(b))
	}
	if err := f.server.Measure(m, &answer); err != nil {
		return nil, err
	}
	return &metric{f.server, answer.Metric}, nil
}

// metric is one series of the server's.
type metric struct {
	server measurer
	number uint64
}

func (m *metric) do(op string, v float64) error {
	return m.server.Measure(host.Metric{Op: op, Metric: m.number, Value: host.Number(v)}, nil)
}

func (m *metric) Increment(v float64) error { return m.do("increment", v) }
func (m *metric) Set(v float64) error       { return m.do("set", v) }
func (m *metric) Observe(v float64) error   { return m.do("observe", v) }

func (m *metric) Value() (float64, error) {
	var answer struct {
		Value host.Number `json:"value"`
	}
	err := m.server.Measure(host.Metric{Op: "value", Metric: m.number}, &answer)
	return float64(answer.Value), err
}

// Release is the family's business: the series is shown as long as that is there.
func (m *metric) Release() {}
