package tuning

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/tune"
	"github.com/nesoserve/neso/internal/tune/analyzer"
	"github.com/nesoserve/neso/internal/tune/knobs"
)

// given reports whether one of the options was on the command line.
func (o *Options) given(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return o.changed != nil && o.changed(n) })
}

// adopt takes from Model Analyzer's file what the command line does not say.
func (o *Options) adopt(f *analyzer.File) error {
	if len(o.Repositories) == 0 && f.Repository != "" {
		o.Repositories = []string{f.Repository}
	}
	if len(o.Models) == 0 {
		for _, m := range f.Models {
			o.Models = append(o.Models, m.Name)
		}
	}
	if !o.given("search") {
		o.Search = f.Mode
	}
	if !o.given("most") && f.Trials > 0 {
		o.Most = f.Trials
	}
	if !o.given("output") && f.Checkpoint != "" {
		o.Directory = f.Checkpoint
	}
	if !o.given("timeout") {
		o.Timeout = time.Duration(f.Timeout) * time.Second
	}
	o.Together = o.Together || f.Together
	if len(o.Composing) == 0 {
		o.Composing = f.Composing
	}
	var timing []analyzer.Flag
	for i := range f.Models {
		own := timingOf(&f.Models[i])
		if i > 0 && !slices.Equal(own, timing) {
			return fmt.Errorf("%s: perf_analyzer_flags: how long it is measured is the same for all models", o.Config)
		}
		timing = own
	}
	return o.timing(timing)
}

// timingOf takes what says how long it is measured out of the flags of a model.
func timingOf(m *analyzer.Model) (timing []analyzer.Flag) {
	is := func(p analyzer.Flag) bool {
		return slices.Contains([]string{"--measurement-interval", "--stability-percentage", "--max-trials"}, p.Name)
	}
	for _, p := range m.Perf {
		if is(p) {
			timing = append(timing, p)
		}
	}
	m.Perf = slices.DeleteFunc(m.Perf, is)
	return timing
}

func (o *Options) timing(flags []analyzer.Flag) error {
	for _, p := range flags {
		n, err := strconv.ParseFloat(p.Value, 64)
		if err != nil || n <= 0 || n > 1e9 {
			return fmt.Errorf("%s: %s: expected a number above 0, found %q", o.Config, strings.TrimPrefix(p.Name, "--"), p.Value)
		}
		switch {
		case o.given(strings.TrimPrefix(p.Name, "--")):
		case p.Name == "--measurement-interval":
			o.Interval = time.Duration(n) * time.Millisecond
		case p.Name == "--stability-percentage":
			o.Stability = n
		default:
			o.Windows = int(n)
		}
	}
	return nil
}

// fromFile has the plan's models be as the file says.
func (o *Options) fromFile(p *tune.Plan, f *analyzer.File) error {
	p.Notes = f.Notes
	if f.Export != "" {
		p.CSV = filepath.Join(f.Export, "results")
	}
	p.Files = tune.Files{Inference: f.Inference, GPU: f.GPU, Server: f.Server, Fields: f.Fields}
	for i := range p.Studies {
		s := &p.Studies[i]
		for k := range s.Models {
			at := slices.IndexFunc(f.Models, func(m analyzer.Model) bool { return m.Name == s.Models[k].Name })
			if at < 0 {
				continue
			}
			m := &f.Models[at]
			o.fill(&s.Models[k], m, f)
			for _, flag := range m.Flags {
				if text := "--" + flag.Name + "=" + flag.Value; !slices.Contains(s.Server, text) {
					s.Server = append(s.Server, text)
				}
			}
			for _, e := range m.Environment {
				s.Env = append(s.Env, e.Name+"="+e.Value)
			}
			if err := check(&s.Models[k]); err != nil {
				return fmt.Errorf("%s: %w", o.Config, err)
			}
		}
	}
	return nil
}

// fill takes what the file says of a model.
func (o *Options) fill(to *tune.ModelPlan, m *analyzer.Model, f *analyzer.File) {
	if !o.given("objective", "latency-budget", "min-throughput", "memory-budget") {
		to.Aim.Objectives, to.Aim.Limits = m.Objectives, m.Limits
	}
	to.Aim.Weight = m.Weight
	to.Perf = []string{"-i", f.Protocol}
	for _, flag := range m.Perf {
		switch flag.Value {
		case "true", "True":
			to.Perf = append(to.Perf, flag.Name)
		case "false", "False":
		default:
			to.Perf = append(to.Perf, flag.Name, flag.Value)
		}
	}
	to.Perf = append(to.Perf, o.Perf...)
	if !o.given("concurrency", "request-rate") {
		to.Loads = tune.Loads{Batch: to.Loads.Batch, Concurrency: m.Concurrencies}
		switch {
		case len(m.Rates) > 0:
			to.Loads.Rate = rates(m.Rates)
		case len(m.Concurrencies) > 0:
		case f.SearchRate:
			to.Loads.Rate = rates(doubled(f.Rate))
		case f.Disabled:
			to.Loads.Concurrency = []int{1}
		default:
			to.Loads.Sweep, to.Loads.Low, to.Loads.High = true, f.Concurrency.Min, f.Concurrency.Max
		}
	}
	if !o.given("batch-size") && len(m.Batches) > 0 {
		to.Loads.Batch = m.Batches
	}
	knobsGiven := o.given("knobs", "vary")
	for _, name := range flagOf {
		knobsGiven = knobsGiven || o.given(name)
	}
	if knobsGiven {
		return
	}
	to.Space = &knobs.Space{Cores: processors.Count(), Small: true, Fields: m.Vary, Values: map[string][]string{}}
	if f.Disabled || len(m.Vary) > 0 {
		return
	}
	for n := f.Instances.Min; n <= f.Instances.Max; n++ {
		to.Space.Values[knobs.Instances] = append(to.Space.Values[knobs.Instances], strconv.Itoa(n))
	}
	for _, n := range doubled(f.Batch) {
		to.Space.Values[knobs.Batch] = append(to.Space.Values[knobs.Batch], strconv.Itoa(n))
	}
	to.Space.Values[knobs.Delay] = []string{"0"} // as there: the dynamic batcher is on
}

func rates(numbers []int) []float64 {
	var all []float64
	for _, n := range numbers {
		all = append(all, float64(n))
	}
	return all
}

func doubled(b analyzer.Bounds) []int {
	var all []int
	for n := b.Min; n <= b.Max; n *= 2 {
		all = append(all, n)
	}
	return all
}
