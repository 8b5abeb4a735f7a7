package isolate

import (
	"encoding/json"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

var kinds = map[backend.MetricKind]string{backend.Counter: "counter", backend.Gauge: "gauge", backend.Histogram: "histogram"}

// ask has the server do something with a metric.
func (h host) ask(b wire.MetricBody, into any) error {
	answer, err := h.g.guest.Ask(wire.KindMetric, b)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// MetricFamily implements backend.Host.
func (h host) MetricFamily(f backend.MetricFamily) (release func(), err error) {
	number, err := h.family(f)
	if err != nil {
		return nil, err
	}
	return func() { _ = h.ask(wire.MetricBody{Op: "release", Family: number}, nil) }, nil // the end of the worker releases it too
}

func (h host) family(f backend.MetricFamily) (uint64, error) {
	var made struct {
		Family uint64 `json:"family"`
	}
	err := h.ask(wire.MetricBody{Op: "family", Name: f.Name, Description: f.Description, Kind: kinds[f.Kind]}, &made)
	return made.Family, err
}

// Metric implements backend.Host: each metric has its family for itself.
func (h host) Metric(f backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	family, err := h.family(f)
	if err != nil {
		return nil, err
	}
	create := wire.MetricBody{Op: "create", Family: family, Labels: labels}
	for _, bound := range f.Buckets {
		create.Buckets = append(create.Buckets, wire.Number(bound))
	}
	var made struct {
		Metric uint64 `json:"metric"`
	}
	if err := h.ask(create, &made); err != nil {
		_ = h.ask(wire.MetricBody{Op: "release", Family: family}, nil)
		return nil, err
	}
	return metric{h, family, made.Metric}, nil
}

// metric is one of the server's.
type metric struct {
	host           host
	family, number uint64
}

func (m metric) do(op string, v float64) error {
	return m.host.ask(wire.MetricBody{Op: op, Metric: m.number, Value: wire.Number(v)}, nil)
}

// Increment implements backend.Metric.
func (m metric) Increment(v float64) error { return m.do("increment", v) }

// Set implements backend.Metric.
func (m metric) Set(v float64) error { return m.do("set", v) }

// Observe implements backend.Metric.
func (m metric) Observe(v float64) error { return m.do("observe", v) }

// Value implements backend.Metric.
func (m metric) Value() (float64, error) {
	var answer struct {
		Value wire.Number `json:"value"`
	}
	err := m.host.ask(wire.MetricBody{Op: "value", Metric: m.number}, &answer)
	return float64(answer.Value), err
}

// Release implements backend.Metric.
func (m metric) Release() { _ = m.host.ask(wire.MetricBody{Op: "release", Family: m.family}, nil) }
