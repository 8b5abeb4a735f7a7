package metrics

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/backend"
)

// maxSeries bounds how many custom metrics there are: labels made from request
// data must not fill the memory.
const maxSeries = 100_000

var (
	customName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	customLabel = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	// ownNames are the prefixes of families that the server itself shows: a
	// second family of the same name would spoil the whole page.
	ownNames = []string{
		"neso_", "go_", "process_", "nv_inference_", "nv_cache_", "nv_gpu_", "nv_cpu_", "nv_model_", "nv_energy_",
		"nv_pinned_", "nv_response_",
	}
)

// kindNames are those of the Prometheus text, by backend.MetricKind.
var kindNames = [...]string{"counter", "gauge", "histogram"}

// Customs holds the metrics that backends publish. A series lives as long
// as someone refers to it, a family as long as it is registered or has a series.
type Customs struct {
	mu       sync.Mutex
	families map[string]*metricFamily
	series   int
}

type metricFamily struct {
	backend.MetricFamily                          // without Buckets
	series               map[string]*metricSeries // by labels
	registered           int                      // guarded by Customs.mu
}

// metricSeries is one value, shared by all metrics with the same labels.
// Histograms of one family may differ in their buckets.
type metricSeries struct {
	owner  *Customs
	family *metricFamily
	key    string
	labels map[string]string
	bounds []float64 // of a histogram
	refs   int       // guarded by owner.mu

	mu     sync.Mutex
	value  float64 // or the sum of a histogram
	counts []uint64
}

// NewCustoms returns one without metrics.
func NewCustoms() *Customs {
	return &Customs{families: map[string]*metricFamily{}}
}

// Family returns the metrics of one family, by labels.
func (c *Customs) Family(name string) []Custom {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.families[name].list(nil)
}

// Metric implements backend.Host.Metric.
func (c *Customs) Metric(f backend.MetricFamily, labels map[string]string) (backend.Metric, error) {
	if n := len(f.Buckets); n > 0 && math.IsInf(f.Buckets[n-1], 1) {
		f.Buckets = f.Buckets[:n-1] // the one that every histogram has
	}
	if err := checkFamily(f, labels); err != nil {
		return nil, err
	}
	key := labelKey(labels)
	c.mu.Lock()
	defer c.mu.Unlock()
	family, err := c.familyLocked(f)
	if err != nil {
		return nil, err
	}
	if s := family.series[key]; s != nil && !slices.Equal(s.bounds, f.Buckets) {
		return nil, backend.Errorf(backend.InvalidArg, "metric '%s' with these labels already exists with other buckets", f.Name)
	}
	if family.series[key] == nil {
		if c.series >= maxSeries {
			c.forgetLocked(family)
			return nil, backend.Errorf(backend.Unavailable, "the server shows its maximum of %d custom metrics", maxSeries)
		}
		c.series++
	}
	s := family.series[key]
	if s == nil {
		s = &metricSeries{owner: c, family: family, key: key, labels: maps.Clone(labels)}
		if f.Kind == backend.Histogram {
			s.bounds, s.counts = slices.Clone(f.Buckets), make([]uint64, len(f.Buckets)+1)
		}
		family.series[key] = s
	}
	s.refs++
	return &metricRef{metricSeries: s}, nil
}

// Register implements backend.Host.MetricFamily.
func (c *Customs) Register(f backend.MetricFamily) (release func(), err error) {
	f.Buckets = nil
	if err := checkFamily(f, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	family, err := c.familyLocked(f)
	if err != nil {
		return nil, err
	}
	family.registered++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		family.registered--
		c.forgetLocked(family)
	}), nil
}

// familyLocked returns the family of that name, a new one if there is none.
func (c *Customs) familyLocked(f backend.MetricFamily) (*metricFamily, error) {
	family := c.families[f.Name]
	switch {
	case family == nil && len(c.families) >= maxSeries:
		return nil, backend.Errorf(backend.Unavailable, "the server has its maximum of %d families of custom metrics", maxSeries)
	case family == nil:
		f.Buckets = nil
		family = &metricFamily{MetricFamily: f, series: map[string]*metricSeries{}}
		c.families[f.Name] = family
	case family.Kind != f.Kind: // the peer's text, and which
		return nil, backend.Errorf(backend.InvalidArg, "Family name already exists with different type: '%s' is a %s", f.Name,
			kindNames[family.Kind])
	}
	return family, nil
}

// forgetLocked drops a family that nobody refers to any more.
func (c *Customs) forgetLocked(family *metricFamily) {
	if family.registered == 0 && len(family.series) == 0 {
		delete(c.families, family.Name)
	}
}

// backendNames are families of the server that its backends tell of.
var backendNames = []string{"neso_generation_cache_bytes", "neso_generation_beam_weights_bytes", "vllm:kv_cache_usage_perc"}

func checkFamily(f backend.MetricFamily, labels map[string]string) error {
	if !customName.MatchString(f.Name) {
		return backend.Errorf(backend.InvalidArg, "invalid metric name '%s'", f.Name)
	}
	for _, own := range ownNames {
		if strings.HasPrefix(f.Name, own) && !slices.Contains(backendNames, f.Name) {
			return backend.Errorf(backend.InvalidArg, "metric name '%s' belongs to the server", f.Name)
		}
	}
	if f.Kind > backend.Histogram {
		return backend.Errorf(backend.InvalidArg, "unknown kind of metric family '%s'", f.Name)
	}
	if f.Kind != backend.Histogram && len(f.Buckets) > 0 {
		return backend.Errorf(backend.InvalidArg, "metric family '%s' is no histogram but has buckets", f.Name)
	}
	for i, b := range f.Buckets {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= f.Buckets[i-1] {
			return backend.Errorf(backend.InvalidArg, "buckets of metric family '%s' must be finite and ascending", f.Name)
		}
	}
	for name := range labels {
		if !customLabel.MatchString(name) || strings.HasPrefix(name, "__") || name == "le" && f.Kind == backend.Histogram {
			return backend.Errorf(backend.InvalidArg, "invalid label name '%s' of metric '%s'", name, f.Name)
		}
	}
	return nil
}

// labelKey is a text that differs for different labels.
func labelKey(labels map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(strconv.Quote(k))
		b.WriteString(strconv.Quote(labels[k]))
	}
	return b.String()
}

// List returns all metrics, by name and labels.
func (c *Customs) List() []Custom {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Custom, 0, c.series)
	for _, name := range slices.Sorted(maps.Keys(c.families)) {
		all = c.families[name].list(all)
	}
	return all
}

// list appends the metrics of a family, by labels; of nil, none.
func (f *metricFamily) list(all []Custom) []Custom {
	if f == nil {
		return all
	}
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		all = append(all, f.series[key].custom())
	}
	return all
}

func (s *metricSeries) custom() Custom {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The maps and bounds are never changed, counts are.
	m := Custom{Name: s.family.Name, Help: s.family.Description, Labels: s.labels}
	switch s.family.Kind {
	case backend.Counter:
		m.Kind, m.Value = prometheus.CounterValue, s.value
	case backend.Gauge:
		m.Kind, m.Value = prometheus.GaugeValue, s.value
	case backend.Histogram:
		m.Kind, m.Sum, m.Bounds, m.Counts = prometheus.UntypedValue, s.value, s.bounds, slices.Clone(s.counts)
	}
	return m
}

// metricRef is one reference to a series.
type metricRef struct {
	*metricSeries
	released sync.Once
}

func (r *metricRef) Increment(v float64) error {
	switch r.family.Kind {
	case backend.Counter:
		if v < 0 || math.IsNaN(v) {
			return backend.Errorf(backend.InvalidArg, "counter '%s' cannot be incremented by %v", r.family.Name, v)
		}
	case backend.Gauge:
	case backend.Histogram:
		return r.unfit("increment")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value += v
	return nil
}

func (r *metricRef) Set(v float64) error {
	if r.family.Kind != backend.Gauge {
		return r.unfit("set")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value = v
	return nil
}

func (r *metricRef) Observe(v float64) error {
	if r.family.Kind != backend.Histogram {
		return r.unfit("observe")
	}
	if math.IsNaN(v) {
		return backend.Errorf(backend.InvalidArg, "histogram '%s' cannot observe NaN", r.family.Name)
	}
	i, _ := slices.BinarySearch(r.bounds, v)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[i]++
	r.value += v
	return nil
}

func (r *metricRef) Value() (float64, error) {
	if r.family.Kind == backend.Histogram {
		return 0, r.unfit("value")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, nil
}

func (r *metricRef) unfit(operation string) error {
	return backend.Errorf(backend.Unsupported, "metric '%s' is a %s, which has no operation '%s'", r.family.Name, kindNames[r.family.Kind],
		operation)
}

// Release drops the reference; the last one takes the metric off the page.
func (r *metricRef) Release() {
	r.released.Do(func() {
		c := r.owner
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.refs--; r.refs > 0 {
			return
		}
		delete(r.family.series, r.key)
		c.series--
		c.forgetLocked(r.family)
	})
}
