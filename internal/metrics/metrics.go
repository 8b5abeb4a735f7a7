// Package metrics is the Prometheus view of the server: Triton's metric names
// and our own, made from stats at scrape time. Open metrics.go first, then
// models.go.
package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/ratelimit"
	"github.com/nesoserve/neso/internal/refusals"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/internal/stats"
)

// Model is one version as the metrics see it, loaded or not any more.
type Model struct {
	Name string
	// Namespace is the value of the label namespace; empty for no such label.
	Namespace string
	Version   int64
	// Tags are the model's metric_tags; each becomes a label with a leading "_".
	Tags    map[string]string
	Numbers stats.Snapshot
	// LoadTime is how long the load took.
	LoadTime time.Duration
	// Stuck is how many instances make no progress, Hangs how many were interrupted
	// for that so far.
	Stuck int
	Hangs int64
	// WorkerCPU is what its workers have used of the processors; Workers says that it
	// has, or had, any.
	WorkerCPU time.Duration
	Workers   bool
	// Cached says that the model asks for the response cache. Without one its
	// numbers are shown all the same, as with Triton.
	Cached bool
	// Failed says that it has never been loaded: of such a version there are only
	// the failures, as with Triton.
	Failed bool
	// Summaries is what NewSummaries made for the version, or nil.
	Summaries *Summaries
}

// Custom is a metric that a backend publishes.
type Custom struct {
	Name, Help string
	Kind       prometheus.ValueType // Counter or Gauge; Untyped marks a histogram
	Labels     map[string]string
	Value      float64
	// Bounds, Counts (not cumulative, one more than Bounds) and Sum describe a
	// histogram.
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Options say what is shown.
type Options struct {
	// Models lists the loaded versions; Customs the backends' own metrics. Both
	// may be nil.
	Models  func() []Model
	Customs func() []Custom
	// Listeners says which of the listeners do not answer; may be nil.
	Listeners func() map[string]bool
	// Resources lists those of the rate limiter; may be nil.
	Resources func() []ratelimit.Usage
	// Cache returns the numbers of the response cache; nil without one.
	Cache func() responsecache.Numbers
	// Demand returns the numbers of loads on demand; nil in another control mode.
	Demand func() ondemand.Numbers
	// DroppedTraces returns how many traces could not be exported; nil shows none.
	DroppedTraces func() uint64
	// Refusals counts what is refused for security; nil shows none.
	Refusals *refusals.Book
	// Ledger counts what is held for clients; nil shows none.
	Ledger *ledger.Ledger
	// Routings lists what goes on under rules for versions; nil shows none.
	Routings func() []Routing
	// Texts has what language models write; nil shows none.
	Texts *generation.Book
	// Auth returns what the keys have used; nil without keys.
	Auth func() *auth.Snapshot
	// GPUs reads those of the machine; nil shows none.
	GPUs func() []gpu.Reading
	// CPU shows nv_cpu_utilization and the memory of the machine.
	CPU    bool
	Config Config
	// Words are what texts call settings of the server.
	Words setting.Words
	// ServerVersion is shown in neso_build_info.
	ServerVersion string
}

// Config is --metrics-config.
type Config struct {
	CounterLatencies   bool // default true
	HistogramLatencies bool // default false
	SummaryLatencies   bool // default false
	// OwnHistograms shows those that Triton lacks; default true.
	OwnHistograms bool
	// NoIdle leaves out versions that nobody has called yet; NoVersions adds up the
	// versions of a model, and has no label for them.
	NoIdle, NoVersions bool
	// MaxSeries bounds the series of models; 0 means no bound.
	MaxSeries int
	// Quantiles maps quantile to allowed error, for summaries.
	Quantiles map[float64]float64
}

// ParseConfig reads --metrics-config=<setting>=<value> options. Unknown
// settings are kept silent, as Triton does; a bad quantile pair is skipped and
// returned in warnings.
func ParseConfig(options []string) (c Config, warnings []string, err error) {
	c = Config{CounterLatencies: true, OwnHistograms: true, Quantiles: map[float64]float64{
		0.5: 0.05, 0.9: 0.01, 0.95: 0.001, 0.99: 0.001,
		0.999: 0.001,
	}}
	for _, o := range options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" || value == "" || strings.Contains(name, ",") {
			return c, warnings, fmt.Errorf("--metrics-config option format is <setting>=<value>. Got %s", o)
		}
		set := func(b *bool) {
			if value == "true" || value == "false" {
				*b = value == "true"
			}
		}
		switch name {
		case "counter_latencies":
			set(&c.CounterLatencies)
		case "histogram_latencies":
			set(&c.HistogramLatencies)
		case "neso_histograms":
			set(&c.OwnHistograms)
		case "neso_idle":
			shown := true
			set(&shown)
			c.NoIdle = !shown
		case "neso_versions":
			shown := true
			set(&shown)
			c.NoVersions = !shown
		case "neso_max_series":
			if c.MaxSeries, err = strconv.Atoi(value); err != nil || c.MaxSeries < 0 {
				return c, warnings, fmt.Errorf("neso_max_series: expected a number of series, 0 for no bound. Got %s", value)
			}
		case "summary_latencies":
			set(&c.SummaryLatencies)
		case "summary_quantiles":
			quantiles := map[float64]float64{}
			for pair := range strings.SplitSeq(value, ",") {
				q, e, ok := strings.Cut(pair, ":")
				quantile, err1 := leadingFloat(q)
				epsilon, err2 := leadingFloat(e)
				if !ok || err1 != nil || err2 != nil || !fraction(quantile) || !fraction(epsilon) {
					warnings = append(warnings, fmt.Sprintf("failed to parse summary quantile %q, expected <quantile>:<error>", pair))
					continue
				}
				quantiles[quantile] = epsilon
			}
			if len(quantiles) > 0 { // else there is none, and the default ones stay
				c.Quantiles = quantiles
			}
		}
	}
	if c.NoVersions && c.SummaryLatencies {
		return c, warnings, errors.New("neso_versions=false and summary_latencies=true contradict each other: " +
			"summaries of versions cannot be added up")
	}
	return c, warnings, nil
}

// leadingFloat reads the number that a text begins with, as Triton does: its own
// examples have "0.1:0.0.1".
func leadingFloat(text string) (v float64, err error) {
	for n := len(text); n > 0; n-- {
		if v, err = strconv.ParseFloat(text[:n], 64); err == nil {
			return v, nil
		}
	}
	return 0, strconv.ErrSyntax
}

// fraction is false for what is not a number, too.
func fraction(v float64) bool { return v >= 0 && v <= 1 }

// Metrics gathers and prints; it is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	options  Options
	cpu      *cpuSampler
}

// New returns the metrics of one server, with a registry of its own.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), options: o}
	if o.CPU {
		m.cpu = newCPUSampler()
	}
	m.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Describe sends nothing: label sets depend on what is loaded.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends everything; it implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.collectServer(ch)
	if m.options.GPUs != nil {
		collectGPUs(ch, m.options.GPUs())
	}
	if m.options.Cache != nil {
		collectCache(ch, m.options.Cache())
	}
	if m.options.Demand != nil {
		collectDemand(ch, m.options.Demand())
	}
	if m.options.Refusals != nil {
		for reason, n := range m.options.Refusals.Counts() {
			ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(n), reason)
		}
	}
	if m.options.Ledger != nil {
		collectLedger(ch, m.options.Ledger)
	}
	if m.options.Auth != nil {
		collectAuth(ch, m.options.Auth())
	}
	if m.options.Routings != nil {
		collectRoutings(ch, m.options.Routings())
	}
	if m.options.Models != nil {
		m.collectModels(ch, m.options.Models())
	}
	var published []Custom
	if m.options.Customs != nil {
		published = m.options.Customs()
	}
	for _, c := range published {
		collectCustom(ch, c)
	}
	if m.options.Texts != nil {
		collectTexts(ch, m.options.Texts, published, m.options.Config.NoVersions)
	}
}
