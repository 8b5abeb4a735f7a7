package hostmetrics

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// familyLimit is how many families a worker may hold at a time. One that makes a
// family for each request lets go of it, or has a leak.
const familyLimit = 10_000

var errClosed = errors.New("the worker's connection has ended")

// Metrics are the custom metrics of a worker. It holds a family until it
// releases it or ends, and all metrics of the family as long: a model may make
// them anew for each request.
type Metrics struct {
	mu       sync.Mutex
	closed   bool
	last     uint64 // number of a family or a metric
	families map[uint64]*heldFamily
	metrics  map[uint64]backend.Metric
}

type heldFamily struct {
	backend.MetricFamily
	release func()
	metrics map[string]uint64 // numbers by labels and buckets
}

// Init makes it ready to use.
func (m *Metrics) Init() {
	m.families, m.metrics = map[uint64]*heldFamily{}, map[uint64]backend.Metric{}
}

// Close drops all that the worker holds; nothing is made for it any more.
func (m *Metrics) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for number := range m.families {
		m.releaseLocked(number)
	}
}

func (m *Metrics) releaseLocked(number uint64) {
	family := m.families[number]
	delete(m.families, number)
	for _, metric := range family.metrics {
		m.metrics[metric].Release()
		delete(m.metrics, metric)
	}
	family.release()
}

// Do does one operation and returns what READY says.
func (m *Metrics) Do(host backend.Host, b *wire.MetricBody) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch b.Op {
	case "family":
		return m.registerLocked(host, b)
	case "create":
		return m.createLocked(host, b)
	case "release":
		if m.families[b.Family] == nil {
			return nil, noFamily(b.Family)
		}
		m.releaseLocked(b.Family)
		return nil, nil
	}
	metric := m.metrics[b.Metric]
	if metric == nil {
		return nil, backend.Errorf(backend.InvalidArg, "metric %d does not exist", b.Metric)
	}
	switch b.Op {
	case "increment":
		return nil, metric.Increment(float64(b.Value))
	case "set":
		return nil, metric.Set(float64(b.Value))
	case "observe":
		return nil, metric.Observe(float64(b.Value))
	case "value":
		v, err := metric.Value()
		return map[string]wire.Number{"value": wire.Number(v)}, err
	}
	return nil, backend.Errorf(backend.InvalidArg, "unknown operation '%s' on a metric", b.Op)
}

func (m *Metrics) registerLocked(host backend.Host, b *wire.MetricBody) (any, error) {
	if m.closed {
		return nil, errClosed
	}
	if len(m.families) >= familyLimit {
		return nil, backend.Errorf(backend.Unavailable, "the model holds its maximum of %d metric families", familyLimit)
	}
	family := &heldFamily{
		MetricFamily: backend.MetricFamily{Name: b.Name, Description: b.Description},
		metrics:      map[string]uint64{},
	}
	switch b.Kind {
	case "counter":
	case "gauge":
		family.Kind = backend.Gauge
	case "histogram":
		family.Kind = backend.Histogram
	default:
		return nil, backend.Errorf(backend.InvalidArg, "unknown kind of metric '%s'", b.Kind)
	}
	var err error
	if family.release, err = host.MetricFamily(family.MetricFamily); err != nil {
		return nil, err
	}
	m.last++
	m.families[m.last] = family
	return map[string]uint64{"family": m.last}, nil
}

// createLocked returns the metric with these labels of a family, the same one
// each time.
func (m *Metrics) createLocked(host backend.Host, b *wire.MetricBody) (any, error) {
	family := m.families[b.Family]
	if family == nil {
		return nil, noFamily(b.Family)
	}
	key, err := json.Marshal(wire.MetricBody{Labels: b.Labels, Buckets: b.Buckets}) // in the order of the names
	if err != nil {
		return nil, err
	}
	number, known := family.metrics[string(key)]
	if !known {
		described := family.MetricFamily
		for _, bound := range b.Buckets {
			described.Buckets = append(described.Buckets, float64(bound))
		}
		metric, err := host.Metric(described, b.Labels)
		if err != nil {
			return nil, err
		}
		m.last++
		number = m.last
		family.metrics[string(key)], m.metrics[number] = number, metric
	}
	return map[string]uint64{"metric": number}, nil
}

func noFamily(number uint64) error {
	return backend.Errorf(backend.InvalidArg, "metric family %d does not exist", number)
}
