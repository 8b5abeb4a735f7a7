//go:build cgo

package capi

// #include <stdint.h>
import "C"

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/native"
	"github.com/nesoserve/neso/capi/object"
)

// metricFamily is a TRITONSERVER_MetricFamily.
type metricFamily struct {
	backend.MetricFamily
	home    familyHome
	mu      sync.Mutex
	metrics int // that have not been deleted
	gone    atomic.Bool
}

// familyHome is where a family lives: among those of this process or, in neso-host, in
// the server that has started it.
type familyHome interface {
	Metric(described backend.MetricFamily, labels map[string]string) (backend.Metric, error)
	Release()
}

// ownFamily is one of this process.
type ownFamily struct{ release func() }

func (f ownFamily) Release() { f.release() }

func (ownFamily) Metric(described backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	return customMetrics.Metric(described, labels)
}

func newFamily(f backend.MetricFamily) (familyHome, error) {
	if made, here, err := native.NewFamily(f); here {
		return made, err
	}
	release, err := customMetrics.Family(f)
	return ownFamily{release}, err
}

// metric is a TRITONSERVER_Metric.
type metric struct {
	backend.Metric
	family *metricFamily
}

// metricArgs is a TRITONSERVER_MetricArgs.
type metricArgs struct {
	mu        sync.Mutex
	histogram bool
	buckets   []float64
}

var (
	families   = handle.NewTable[metricFamily](handle.MetricFamily)
	metrics    = handle.NewTable[metric](handle.Metric)
	argsTables = handle.NewTable[metricArgs](handle.MetricArgs)
)

//export TRITONSERVER_MetricFamilyNew
func TRITONSERVER_MetricFamilyNew(made C.uintptr_t, kind C.int, name, description C.uintptr_t) C.uintptr_t {
	switch {
	case made == 0 || name == 0 || description == 0:
		return C.uintptr_t(object.Null("name, description and the place for the metric family"))
	case kind < 0 || kind > C.int(backend.Histogram):
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "Unsupported kind passed to MetricFamily constructor."))
	}
	f := &metricFamily{MetricFamily: backend.MetricFamily{
		Name: object.String(uintptr(name)), Description: object.String(uintptr(description)), Kind: backend.MetricKind(kind),
	}}
	var err error
	if strings.HasPrefix(f.Name, "__") {
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "Invalid metric name '%s'", f.Name))
	}
	if f.home, err = newFamily(f.MetricFamily); err != nil {
		return C.uintptr_t(asPeers(err))
	}
	object.Set(uintptr(made), uintptr(families.New(f)))
	return 0
}

// asPeers is an error about a metric, whose text begins as the peer's.
func asPeers(err error) handle.Handle {
	e := backend.AsError(err)
	text := e.Message
	switch {
	case strings.HasPrefix(text, "invalid"):
		text = "I" + text[1:]
	case strings.HasPrefix(text, "buckets"):
		text = "Bucket Boundaries must be strictly sorted: " + text
	}
	return object.NewError(e.Code, text)
}

//export TRITONSERVER_MetricFamilyDelete
func TRITONSERVER_MetricFamilyDelete(h C.uintptr_t) C.uintptr_t {
	f := families.Get(handle.Handle(h))
	if f == nil {
		return C.uintptr_t(object.Stale("metric family"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.metrics > 0 {
		return C.uintptr_t(object.Errorf(backend.Internal,
			"Must call MetricDelete on all dependent metrics before calling MetricFamilyDelete."))
	}
	if families.Take(handle.Handle(h)) == nil {
		return C.uintptr_t(object.Stale("metric family"))
	}
	f.gone.Store(true)
	f.home.Release()
	return 0
}

//export TRITONSERVER_GetMetricFamilyKind
func TRITONSERVER_GetMetricFamilyKind(h, kind C.uintptr_t) C.uintptr_t {
	f := families.Get(handle.Handle(h))
	if f == nil || kind == 0 {
		return C.uintptr_t(object.Stale("metric family"))
	}
	object.Set(uintptr(kind), int32(f.Kind))
	return 0
}

//export TRITONSERVER_MetricArgsNew
func TRITONSERVER_MetricArgsNew(made C.uintptr_t) C.uintptr_t {
	if made == 0 {
		return C.uintptr_t(object.Null("the place for the metric's arguments"))
	}
	object.Set(uintptr(made), uintptr(argsTables.New(&metricArgs{})))
	return 0
}

// maxBuckets bounds what a wrong count makes the server read.
const maxBuckets = 1 << 16

//export TRITONSERVER_MetricArgsSetHistogram
func TRITONSERVER_MetricArgsSetHistogram(h, buckets C.uintptr_t, count C.uint64_t) C.uintptr_t {
	a := argsTables.Get(handle.Handle(h))
	bytes, ok := object.Bytes(uintptr(buckets), uint64(count)*8)
	switch {
	case a == nil:
		return C.uintptr_t(object.Stale("metric arguments"))
	case count > maxBuckets || !ok:
		return C.uintptr_t(object.Null("the buckets"))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.histogram, a.buckets = true, nil
	if len(bytes) > 0 {
		a.buckets = append(a.buckets, unsafe.Slice((*float64)(unsafe.Pointer(&bytes[0])), int(count))...)
	}
	return 0
}

//export TRITONSERVER_MetricArgsDelete
func TRITONSERVER_MetricArgsDelete(h C.uintptr_t) C.uintptr_t {
	if h != 0 && argsTables.Take(handle.Handle(h)) == nil { // libraries end what they have not made: that is no error there
		return C.uintptr_t(object.Stale("metric arguments"))
	}
	return 0
}

//export TRITONSERVER_MetricNew
func TRITONSERVER_MetricNew(made, h, labels C.uintptr_t, count C.uint64_t) C.uintptr_t {
	return TRITONSERVER_MetricNewWithArgs(made, h, labels, count, 0)
}

//export TRITONSERVER_MetricNewWithArgs
func TRITONSERVER_MetricNewWithArgs(made, h, labels C.uintptr_t, count C.uint64_t, args C.uintptr_t) C.uintptr_t {
	f := families.Get(handle.Handle(h))
	list, ok := object.Parameters(uintptr(labels), uint64(count))
	switch {
	case f == nil:
		return C.uintptr_t(object.Stale("metric family"))
	case made == 0 || !ok:
		return C.uintptr_t(object.Null("the labels and the place for the metric"))
	}
	names := map[string]string{}
	for _, p := range list {
		value, ok := p.Value.(string)
		if !ok {
			return C.uintptr_t(object.Errorf(backend.InvalidArg,
				"Parameter [%s] must have a type of TRITONSERVER_PARAMETER_STRING to be added as a label.", p.Name))
		}
		names[p.Name] = value
	}
	family := f.MetricFamily
	if err := takeArgs(&family, handle.Handle(args)); err != 0 {
		return C.uintptr_t(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone.Load() {
		return C.uintptr_t(object.Stale("metric family"))
	}
	m, err := f.home.Metric(family, names)
	if err != nil {
		return C.uintptr_t(asPeers(err))
	}
	f.metrics++
	object.Set(uintptr(made), uintptr(metrics.New(&metric{m, f})))
	return 0
}

// takeArgs puts the arguments of a metric into its family.
func takeArgs(f *backend.MetricFamily, h handle.Handle) handle.Handle {
	if h == 0 {
		if f.Kind == backend.Histogram {
			return object.Errorf(backend.InvalidArg, "Bucket boundaries not found in Metric args.")
		}
		return 0
	}
	a := argsTables.Get(h)
	if a == nil {
		return object.Stale("metric arguments")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case f.Kind == backend.Counter:
		return object.Errorf(backend.InvalidArg, "Unexpected args found in counter Metric constructor.")
	case f.Kind == backend.Gauge:
		return object.Errorf(backend.InvalidArg, "Unexpected args found in gauge Metric constructor.")
	case !a.histogram:
		return object.Errorf(backend.InvalidArg, "Metric args not set to histogram kind.")
	}
	f.Buckets = append([]float64(nil), a.buckets...)
	return 0
}

//export TRITONSERVER_MetricDelete
func TRITONSERVER_MetricDelete(h C.uintptr_t) C.uintptr_t {
	m := metrics.Take(handle.Handle(h))
	if m == nil {
		return C.uintptr_t(object.Stale("metric"))
	}
	m.Release()
	m.family.mu.Lock()
	m.family.metrics--
	m.family.mu.Unlock()
	return 0
}

// cannot is the answer to what a metric of its kind does not have.
func (m *metric) cannot(what string) error {
	kind := [...]string{"COUNTER", "GAUGE", "HISTOGRAM"}[m.family.Kind]
	return backend.Errorf(backend.Unsupported, "TRITONSERVER_METRIC_KIND_%s does not support %s", kind, what)
}

// measure calls f with the metric of a handle.
func measure(h C.uintptr_t, f func(m *metric) error) C.uintptr_t {
	m := metrics.Get(handle.Handle(h))
	if m == nil {
		return C.uintptr_t(object.Stale("metric"))
	}
	return C.uintptr_t(object.FromError(f(m)))
}

//export TRITONSERVER_MetricValue
func TRITONSERVER_MetricValue(h, value C.uintptr_t) C.uintptr_t {
	return measure(h, func(m *metric) error {
		if m.family.Kind == backend.Histogram {
			return m.cannot("Value")
		}
		v, err := m.Value()
		if err == nil {
			object.Set(uintptr(value), v)
		}
		return err
	})
}

//export TRITONSERVER_MetricIncrement
func TRITONSERVER_MetricIncrement(h C.uintptr_t, value C.double) C.uintptr_t {
	return measure(h, func(m *metric) error {
		switch {
		case m.family.Kind == backend.Histogram:
			return m.cannot("Increment")
		case m.family.Kind == backend.Counter && value < 0:
			return backend.Errorf(backend.InvalidArg,
				"TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.")
		}
		return m.Increment(float64(value))
	})
}

//export TRITONSERVER_MetricSet
func TRITONSERVER_MetricSet(h C.uintptr_t, value C.double) C.uintptr_t {
	return measure(h, func(m *metric) error {
		if m.family.Kind != backend.Gauge {
			return m.cannot("Set")
		}
		return m.Set(float64(value))
	})
}

//export TRITONSERVER_MetricObserve
func TRITONSERVER_MetricObserve(h C.uintptr_t, value C.double) C.uintptr_t {
	return measure(h, func(m *metric) error {
		if m.family.Kind != backend.Histogram {
			return m.cannot("Observe")
		}
		return m.Observe(float64(value))
	})
}

//export TRITONSERVER_GetMetricKind
func TRITONSERVER_GetMetricKind(h, kind C.uintptr_t) C.uintptr_t {
	return measure(h, func(m *metric) error {
		object.Set(uintptr(kind), int32(m.family.Kind))
		return nil
	})
}
