package tuning

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/tune"
	"github.com/nesoserve/neso/internal/tune/analyzer"
	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/overlay"
	"github.com/nesoserve/neso/internal/tune/search"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// Options is the command line.
type Options struct {
	Repositories, Models []string
	Config               string
	Objectives           []string
	Latency, Memory      string
	Throughput           float64
	Search               string
	Knobs                []string
	Values               map[string]*[]string
	Vary                 []string
	Concurrency, Rates   []string
	Batches              []string
	Together             bool
	Composing            []string
	Server               []string
	Directory            string
	Restart, Apply       bool
	Quiet                bool
	Rounds, Top          int
	Most                 int
	LoadTimeout, Timeout time.Duration
	Interval             time.Duration
	Stability            float64
	Windows              int
	// Perf are options of `neso perf`, behind "--".
	Perf []string
	// changed reports whether an option was given.
	changed func(name string) bool
}

// usualDirectory is where everything is kept unless --output says where.
const usualDirectory = "neso-tune"

// flagOf names the options that have the values of knobs.
var flagOf = map[string]string{
	knobs.Instances: "instances", knobs.Batch: "max-batch-size", knobs.Delay: "queue-delay", knobs.Preferred: "preferred-batch-size",
	knobs.Threads: "threads", knobs.Isolation: "isolation",
}

// Flags defines the options.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Repositories, "model-repository", nil, "the model repository; may be repeated")
	f.StringSliceVar(&o.Models, "model", nil, "the models to tune, one after the other")
	f.StringVarP(&o.Config, "config-file", "f", "", "Model Analyzer's YAML file; options win over it")
	f.StringSliceVar(&o.Objectives, "objective", []string{"throughput"},
		"throughput, latency, cpu or memory, or a metric; several with weights: throughput=10,latency=5")
	f.StringVar(&o.Latency, "latency-budget", "", "the most latency, such as 20ms@p99 (avg, p50, p90, p95, p99)")
	f.Float64Var(&o.Throughput, "min-throughput", 0, "the least inferences a second")
	f.StringVar(&o.Memory, "memory-budget", "", "the most memory of the server, such as 2GiB")
	f.StringVar(&o.Search, "search", "quick",
		"brute (all configurations), quick (one knob after the other), halving (many shortly, the best longer)")
	f.StringSliceVar(&o.Knobs, "knobs", nil, "what is turned: "+strings.Join(knobs.Names, ", ")+"; default all that the model has")
	o.Values = map[string]*[]string{}
	for name, help := range map[string]string{
		knobs.Instances: "counts of instances to try: 1,2,4", knobs.Batch: "max_batch_size to try",
		knobs.Delay:     "queue delays of the dynamic batcher to try, in microseconds; off is none",
		knobs.Preferred: "preferred batch sizes to try, each one size or several joined by +; none is none",
		knobs.Threads:   "threads of the framework to try; default is its own choice",
		knobs.Isolation: "where the model runs: none (in the server), process (in one of its own)",
	} {
		o.Values[name] = f.StringSlice(flagOf[name], nil, help)
	}
	f.StringArrayVar(&o.Vary, "vary", nil,
		"another field of the configuration, FIELD=VALUE|VALUE..., such as parameters.execution_mode=0|1; may be repeated")
	f.StringSliceVar(&o.Concurrency, "concurrency", nil,
		"requests in flight: 1,4 or START:END:STEP; default: doubled from 1 as long as that helps, 8 if throughput is no objective")
	f.StringSliceVar(&o.Rates, "request-rate", nil, "requests a second, in place of concurrency")
	f.StringSliceVarP(&o.Batches, "batch-size", "b", []string{"1"}, "samples of a request")
	f.BoolVar(&o.Together, "together", false, "tune the models at once, in one server, under load at the same time")
	f.StringSliceVar(&o.Composing, "bls-composing-models", nil, "models that the model calls (BLS), tuned with it")
	f.StringArrayVar(&o.Server, "server-option", nil, "an option of neso serve, such as --backend-config=...; may be repeated")
	f.StringVarP(&o.Directory, "output", "o", usualDirectory, "directory of the checkpoint and the reports")
	f.BoolVar(&o.Restart, "restart", false, "forget what was measured before")
	f.BoolVar(&o.Apply, "apply", false, "write the best configuration into the model repository, if it is a winner")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "say nothing of single measurements")
	f.IntVar(&o.Rounds, "confirm", 3, "how often the best are measured once more; 0 is never")
	f.IntVar(&o.Top, "top", 2, "how many of the best are measured once more, beside the configuration as it is")
	f.IntVar(&o.Most, "most", 81, "the most configurations that halving begins with")
	f.DurationVar(&o.LoadTimeout, "load-timeout", 2*time.Minute, "how long a server may take to be ready")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long one load may take to be measured")
	f.DurationVar(&o.Interval, "measurement-interval", time.Second, "the length of a window")
	f.Float64Var(&o.Stability, "stability-percentage", 5, "how far three windows in a row may differ, to be stable")
	f.IntVar(&o.Windows, "max-trials", 10, "the most windows of one load")
}

// Plan makes a plan of the options; faults say which one.
func (o *Options) Plan() (*tune.Plan, error) {
	if o.Config == "" {
		return o.plan()
	}
	f, err := analyzer.Read(o.Config)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	if err := o.adopt(f); err != nil {
		return nil, err
	}
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	return p, o.fromFile(p, f)
}

func (o *Options) plan() (*tune.Plan, error) {
	p := &tune.Plan{
		Directory: o.Directory, CSV: "", Restart: o.Restart, Apply: o.Apply, Quiet: o.Quiet, Rounds: o.Rounds, Top: o.Top, Server: o.Server,
		LoadTimeout: o.LoadTimeout, Timeout: o.Timeout, Interval: o.Interval, Stability: o.Stability, Windows: o.Windows,
		Search: tune.Search{Mode: o.Search, Halving: search.Halving{Most: o.Most, Keep: 3, Seed: 1}},
	}
	switch {
	case len(o.Repositories) == 0:
		return nil, errors.New("--model-repository: expected the directory of the models")
	case len(o.Models) == 0:
		return nil, errors.New("--model: expected the name of a model")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	aim, err := o.aim()
	if err != nil {
		return nil, err
	}
	loads, err := o.loads(aim)
	if err != nil {
		return nil, err
	}
	space, err := o.space()
	if err != nil {
		return nil, err
	}
	for _, name := range o.Models {
		m := tune.ModelPlan{Name: name, Aim: aim, Perf: o.Perf, Loads: *loads}
		if err := check(&m); err != nil {
			return nil, err
		}
		if o.Together && len(p.Studies) > 0 {
			p.Studies[0].Models = append(p.Studies[0].Models, m)
			continue
		}
		p.Studies = append(p.Studies, tune.Study{
			Repositories: o.Repositories, Models: []tune.ModelPlan{m}, Composing: o.Composing, Space: *space, Together: o.Together,
		})
	}
	return p, nil
}

func (o *Options) check() error {
	for _, r := range o.Repositories {
		if info, err := os.Stat(r); err != nil {
			return fmt.Errorf("--model-repository: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("--model-repository: %s is no directory", r)
		}
	}
	for i, name := range append(slices.Clone(o.Models), o.Composing...) {
		if i < len(o.Models) && slices.Contains(o.Models[:i], name) {
			return fmt.Errorf("--model: %q is there twice", name)
		}
		if _, err := overlay.Find(o.Repositories, name); err != nil {
			return err
		}
	}
	for _, k := range o.Knobs {
		if !slices.Contains(knobs.Names, k) {
			return fmt.Errorf("--knobs: there is no knob %q, expected some of %s", k, strings.Join(knobs.Names, ", "))
		}
	}
	switch {
	case !slices.Contains([]string{"brute", "quick", "halving"}, o.Search):
		return fmt.Errorf("--search: expected brute, quick or halving, found %q", o.Search)
	case o.Rounds < 0 || o.Rounds > 1000:
		return fmt.Errorf("--confirm: expected a number from 0 to 1000, found %d", o.Rounds)
	case o.Top < 1 || o.Most < 1:
		return errors.New("--top and --most: expected a number from 1 on")
	case o.Interval < 10*time.Millisecond:
		return fmt.Errorf("--measurement-interval: expected 10ms or more, found %v", o.Interval)
	case o.Stability <= 0:
		return fmt.Errorf("--stability-percentage: expected more than 0, found %g", o.Stability)
	case o.Windows < 1 || o.LoadTimeout <= 0 || o.Timeout <= 0:
		return errors.New("--max-trials, --load-timeout and --timeout: expected more than 0")
	}
	return nil
}

// check sees that what is said of the load can be.
func check(m *tune.ModelPlan) error {
	o, err := options.Parse(append(slices.Clone(m.Perf), "-m", m.Name))
	if err != nil {
		return fmt.Errorf("the options of the load: %w", err)
	}
	for _, name := range []string{
		"url", "concurrency-range", "request-rate-range", "request-intervals", "periodic-concurrency-range", "filename", "format", "plot",
		"profile-export-file", "metrics-url", "binary-search", "batch-size", "model-repository", "request-count",
	} {
		if o.Given(name) {
			return fmt.Errorf("the options of the load: --%s is for this command to say", name)
		}
	}
	if o.Kind != "triton" {
		return fmt.Errorf("the options of the load: --service-kind=%s: servers are measured over HTTP and gRPC", o.Kind)
	}
	return nil
}

// short are the objectives that have a name of their own.
var short = map[string]trial.Metric{
	"throughput": trial.Throughput, "latency": trial.LatencyP99, "cpu": trial.CPU, "memory": trial.UsedRAM,
}

func (o *Options) aim() (trial.Aim, error) {
	a := trial.Aim{Objectives: map[trial.Metric]float64{}, Limits: map[trial.Metric]trial.Limit{}, Weight: 1}
	latencyMetric, most, err := budget(o.Latency)
	if err != nil {
		return a, err
	}
	if o.Latency != "" {
		a.Limits[latencyMetric] = trial.Limit{Min: math.NaN(), Max: most}
	}
	for _, text := range o.Objectives {
		name, weight, given := strings.Cut(text, "=")
		w := 1.0
		if given {
			if w, err = strconv.ParseFloat(weight, 64); err != nil || w <= 0 || math.IsInf(w, 0) {
				return a, fmt.Errorf("--objective: expected a weight above 0, found %q", text)
			}
		}
		m, ok := short[name]
		if name == "latency" {
			m = latencyMetric
		}
		if !ok {
			if m = trial.Metric(name); !m.Known() {
				return a, fmt.Errorf("--objective: expected throughput, latency, cpu, memory, or one of %v, found %q", trial.Metrics(), name)
			}
		}
		a.Objectives[m] = w
	}
	if o.Throughput < 0 || math.IsNaN(o.Throughput) {
		return a, fmt.Errorf("--min-throughput: expected a number, found %g", o.Throughput)
	}
	if o.Throughput > 0 {
		a.Limits[trial.Throughput] = trial.Limit{Min: o.Throughput, Max: math.NaN()}
	}
	if o.Memory != "" {
		bytes, err := size(o.Memory)
		if err != nil {
			return a, fmt.Errorf("--memory-budget: %w", err)
		}
		a.Limits[trial.UsedRAM] = trial.Limit{Min: math.NaN(), Max: bytes / 1e6}
	}
	return a, nil
}

// budget reads 20ms@p99, in milliseconds.
func budget(text string) (trial.Metric, float64, error) {
	if text == "" {
		return trial.LatencyP99, 0, nil
	}
	most, at, given := strings.Cut(text, "@")
	if !given {
		at = "p99"
	}
	m := trial.Metric("perf_latency_" + at)
	d, err := time.ParseDuration(most)
	if ms, number := strconv.ParseFloat(most, 64); number == nil {
		d, err = time.Duration(ms*float64(time.Millisecond)), nil
	}
	if err != nil || d <= 0 || !m.Known() {
		return "", 0, fmt.Errorf("--latency-budget: expected a time and perhaps avg, p50, p90, p95 or p99, such as 20ms@p99, found %q", text)
	}
	return m, float64(d) / 1e6, nil
}

// size reads 2GiB, 500MB or a number of bytes.
func size(text string) (float64, error) {
	units := []struct {
		name   string
		factor float64
	}{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
	number, factor := text, 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || n <= 0 || math.IsInf(n, 0) {
		return 0, fmt.Errorf("expected a size such as 2GiB, found %q", text)
	}
	return n * factor, nil
}

// The loads that are tried unless others are given.
const (
	fixedConcurrency = 8
	mostConcurrency  = 1024
)

func (o *Options) loads(aim trial.Aim) (*tune.Loads, error) {
	l := &tune.Loads{Low: 1, High: mostConcurrency}
	var err error
	if l.Batch, err = list("--batch-size", o.Batches); err != nil {
		return nil, err
	}
	if l.Concurrency, err = list("--concurrency", o.Concurrency); err != nil {
		return nil, err
	}
	for _, r := range o.Rates {
		rate, err := strconv.ParseFloat(r, 64)
		if err != nil || rate <= 0 || rate > 1e7 {
			return nil, fmt.Errorf("--request-rate: expected a number of requests a second, found %q", r)
		}
		l.Rate = append(l.Rate, rate)
	}
	if len(l.Rate) > 0 && len(l.Concurrency) > 0 {
		return nil, errors.New("--concurrency and --request-rate: expected one of them")
	}
	if len(l.Rate) == 0 && len(l.Concurrency) == 0 {
		if _, sweep := aim.Objectives[trial.Throughput]; sweep {
			l.Sweep = true
		} else {
			l.Concurrency = []int{fixedConcurrency}
		}
	}
	return l, nil
}

// list reads 1,4,8:64:8.
func list(name string, texts []string) ([]int, error) {
	var all []int
	for _, text := range texts {
		fields := strings.Split(text, ":")
		var n [3]int
		for i, f := range fields {
			v, err := strconv.Atoi(f)
			if err != nil || v < 1 || v > 1<<20 || len(fields) > 3 {
				return nil, fmt.Errorf("%s: expected a number from 1 on, or START:END:STEP, found %q", name, text)
			}
			n[i] = v
		}
		switch len(fields) {
		case 1:
			n[1], n[2] = n[0], 1
		case 2:
			n[2] = 1
		}
		if n[1] < n[0] || (n[1]-n[0])/n[2] > 1000 {
			return nil, fmt.Errorf("%s: expected at most 1000 values, START up to END, found %q", name, text)
		}
		for v := n[0]; v <= n[1]; v += n[2] {
			all = append(all, v)
		}
	}
	return all, nil
}

func (o *Options) space() (*knobs.Space, error) {
	s := &knobs.Space{Knobs: o.Knobs, Values: map[string][]string{}, Cores: processors.Count()}
	for name, values := range o.Values {
		if len(*values) > 0 {
			s.Values[name] = *values
		}
	}
	for _, text := range o.Vary {
		f, err := vary(text)
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, *f)
	}
	s.Small = o.Knobs == nil && len(s.Values)+len(s.Fields) > 0
	return s, nil
}
