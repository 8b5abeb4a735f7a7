package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/load"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/report"
	"github.com/nesoserve/neso/internal/perf/schedule"
	"github.com/nesoserve/neso/internal/perf/target"
)

// profile measures one load after the other.
func (s *session) profile(ctx context.Context) {
	o := s.o
	search := schedule.Linear(o.Load.Start, o.Load.End, o.Load.Step)
	if o.BinarySearch {
		search = schedule.Binary(o.Load.Start, o.Load.End, o.Load.Step)
	}
	var gaps []time.Duration
	if o.Mode == options.Intervals {
		var err error
		if gaps, err = readGaps(o.IntervalsFile); err != nil {
			s.failure = err
			return
		}
		search = schedule.Linear(schedule.MeanRate(gaps), schedule.MeanRate(gaps), 1)
	}
	if o.Mode == options.Scheduled {
		rate := schedule.TimesRate(s.times)
		search = schedule.Linear(rate, rate, 1)
	}
	if o.Mode == options.Periodic { // one load, that grows
		search = schedule.Linear(o.Load.End, o.Load.End, 1)
	}
	defer s.limitThreads()()
	met := true
	for ctx.Err() == nil && s.failure == nil {
		level, more := search.Next(met)
		if !more {
			return
		}
		x, err := s.level(ctx, level, gaps)
		if err != nil {
			s.failure = err
		}
		if x == nil {
			return
		}
		s.report.Results = append(s.report.Results, *x)
		s.report.Result(s.env.Stdout, x)
		met = x.Met
		if !x.Met {
			fmt.Fprintf(s.env.Stderr, "Measured latency went over the set limit of %d msec. \n", o.LatencyLimit.Milliseconds())
		}
		s.unstable = s.unstable || !x.Stable && x.Met
	}
}

func readGaps(path string) ([]time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	gaps, err := schedule.Gaps(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return gaps, nil
}

// Connections of a rate at most, unless options say otherwise.
const mostConnections = 1024

// start begins a load. limit bounds its requests, 0 is none.
func (s *session) start(level float64, gaps []time.Duration, r *measure.Recorder, limit int) (*load.Load, error) {
	o := s.o
	plan := load.Plan{
		Dial: s.dial, Requests: s.requests, Check: s.check(), Keep: o.Export != "", Recorder: r, Limit: int64(limit),
		FirstResponse: s.model != nil && s.model.Decoupled,
	}
	slots := int(level)
	if o.Mode == options.Rate || o.Mode == options.Intervals || o.Mode == options.Scheduled {
		slots = o.Sequences
	}
	if s.model != nil && s.model.Sequence {
		var err error
		if plan.Sequences, err = s.sequences(slots); err != nil {
			return nil, err
		}
	}
	switch o.Mode {
	case options.Closed:
		return load.Closed(plan, slots), nil
	case options.Periodic:
		r := o.Load
		return load.Ramped(plan, schedule.NewRamp(int(r.Start), int(r.End), int(r.Step), o.RequestPeriod), o.RequestPeriod), nil
	default:
	}
	most := mostConnections
	if o.MaxThreads > 0 {
		most = o.MaxThreads
	}
	var arrivals schedule.Arrivals
	switch {
	case o.Mode == options.Intervals:
		arrivals = schedule.Intervals(gaps)
	case o.Mode == options.Scheduled:
		arrivals = schedule.Times(s.times)
	case o.Distribution == "poisson":
		arrivals = schedule.Poisson(level, s.random)
	default:
		arrivals = schedule.Constant(level)
	}
	return load.Open(plan, arrivals, most, slots), nil
}

func (s *session) sequences(slots int) (*schedule.Sequences, error) {
	o := s.o
	so := schedule.SequenceOptions{
		Slots: slots, First: o.SequenceStart, Range: o.SequenceRange, Length: o.SequenceLength, Variation: o.LengthVariation,
	}
	for _, stream := range s.requests {
		so.Streams = append(so.Streams, len(stream))
	}
	if so.Length == 0 && !s.set.Given {
		so.Length = 20
	}
	return schedule.NewSequences(so, s.random)
}

// grace is how long requests under way are waited for at the end of a load.
const grace = 5 * time.Second

// level measures one load. A result may come with an error: what was measured until
// the run failed.
func (s *session) level(ctx context.Context, level float64, gaps []time.Duration) (*report.Result, error) {
	if err := s.warmUp(ctx, level, gaps); err != nil {
		return nil, err
	}
	s.report.Begin(s.env.Stdout, level)
	recorder := measure.NewRecorder()
	m := &meter{session: s, level: level, recorder: recorder, names: s.statisticsOf(), shown: s.progress()}
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	if s.o.CollectMetrics {
		metrics, err := collect(ctx, s.o.MetricsURL, s.o.MetricsInterval)
		if err != nil {
			return nil, err
		}
		defer metrics.end() //nolint:errcheck // result has asked for it
		m.metrics = metrics
	}
	m.begin = drive.Now()
	if m.tickAt = m.begin; s.zero == 0 {
		s.zero = m.begin
	}
	m.watch = newWatch(m.begin)
	m.serverCPU = measure.ServerCPU(m.server)
	m.clientCPU = measure.ClientCPU() // without what asking has cost
	l, err := s.start(level, gaps, recorder, s.o.RequestCount)
	if err != nil {
		return nil, err
	}
	m.load = l
	windows, stable, cut := m.windows(ctx)
	m.lastTick()
	l.Stop(grace)
	m.shown.clear()
	return s.result(level, m, windows, stable, cut)
}

func (s *session) result(level float64, m *meter, windows []*measure.Window, stable bool, cut error) (*report.Result, error) {
	var used []*measure.Window
	for _, w := range windows {
		if w.Count > 0 || w.Failed() > 0 {
			used = append(used, w)
		}
	}
	if cut != nil && len(used) > 1 && used[len(used)-1].Count == 0 {
		used = used[:len(used)-1]
	}
	if len(used) == 0 || used[0].Count == 0 && cut != nil {
		if cut == nil {
			cut = errNothing
		}
		if errors.Is(cut, context.Canceled) {
			return nil, nil
		}
		return nil, cut
	}
	last := used[max(0, len(used)-measure.StableWindows):]
	var notes []string
	if n := m.recorder.Cut(); n > 0 {
		notes = append(notes, fmt.Sprintf("the profile export has %d requests without their outputs: all of them are too large to keep", n))
	}
	x := &report.Result{
		Notes: notes, GPU: report.NewGPU(),
		Load: level, Window: measure.Merge(last), Windows: used, Stable: stable, Met: true, Ticks: m.ticks, Began: float64(m.begin-s.zero) / 1e9,
	}
	if m.metrics != nil {
		gpu, err := m.metrics.end()
		if x.GPU = gpu; err != nil {
			x.Notes = append(x.Notes, "the server's metrics could not be read to the end: "+measure.Plain(err.Error()))
		} else if len(gpu.TotalBytes) == 0 {
			x.Notes = append(x.Notes, "the server's metrics tell of no GPU")
		}
	}
	if limit := s.o.LatencyLimit; limit > 0 && time.Duration(x.Window.Latency(s.o.Percentile)) >= limit {
		x.Met = false
	}
	if errors.Is(cut, context.Canceled) {
		x.Cut, cut = "interrupted", nil
	} else if cut != nil {
		x.Cut = "cut short"
	}
	if !stable && x.Met && x.Cut == "" {
		s.sayUnstable(level, last)
	}
	s.judge(x)
	return x, cut
}

func (s *session) sayUnstable(level float64, last []*measure.Window) {
	if s.o.Mode != options.Closed {
		fmt.Fprint(s.env.Stderr, "Failed to obtain stable measurement.")
	} else {
		more := "--measurement-interval"
		if s.o.CountWindows {
			more = "--measurement-request-count"
		}
		fmt.Fprintf(s.env.Stderr, "Failed to obtain stable measurement within %d measurement windows for concurrency %g. "+
			"Please try to increase the %s.", s.o.MaxTrials, level, more)
	}
	fmt.Fprintf(s.env.Stderr, " The last windows differ by %.0f%% from their mean.\n", 100*measure.Spread(last))
}

// busy is the share of the processors that it may use from which on the generator may be the limit.
const busy = 0.85

// judge says what keeps a result from being the server's alone.
func (s *session) judge(x *report.Result) {
	w := x.Window
	cores := w.ClientCPU / max(w.Seconds(), 1e-9)
	if all := runtime.GOMAXPROCS(0); w.Seconds() > 0.2 && cores > busy*float64(all) && s.o.Kind != "triton_c_api" {
		x.Notes = append(x.Notes, fmt.Sprintf("the generator itself used %.1f of %d processors: it may be the limit, not the server", cores, all))
	}
	if w.Count > 0 && w.Count < 20 {
		x.Notes = append(x.Notes, fmt.Sprintf("only %d requests were measured: percentiles mean little", w.Count))
	}
}

// warmUp sends requests that do not count.
func (s *session) warmUp(ctx context.Context, level float64, gaps []time.Duration) error {
	if s.o.Warmup == 0 {
		return nil
	}
	recorder := measure.NewRecorder()
	l, err := s.start(level, gaps, recorder, s.o.Warmup)
	if err != nil {
		return err
	}
	defer l.Stop(grace)
	t := time.NewTicker(look)
	defer t.Stop()
	for w := newWatch(drive.Now()); ; {
		select {
		case <-l.Done():
			return nil
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		answered, failed, _ := recorder.Counts()
		if err := w.look(drive.Now(), answered, failed); err != nil {
			return because(err, recorder.Take())
		}
	}
}

// statisticsOf names the models whose statistics are asked for.
func (s *session) statisticsOf() []string {
	if s.model == nil || !s.model.Statistics {
		return nil
	}
	name := s.model.Name
	if s.model.Version != "" {
		name += ":" + s.model.Version
	}
	return append(append([]string{name}, s.model.Composing...), s.o.Composing...)
}

// ask asks for the server's counters and processor time.
func (m *meter) ask(ctx context.Context) error {
	m.clientCPU = measure.ClientCPU() // first: to look at the server's processes costs some
	m.serverCPU = measure.ServerCPU(m.server)
	if len(m.names) == 0 {
		return nil
	}
	limit := askTimeout
	if ctx.Err() != nil {
		limit = lastAsk
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	counters, err := target.Statistics(ctx, m.api, m.names)
	if err != nil {
		return fmt.Errorf("failed to get the statistics: %w", reached(m.o, err))
	}
	m.counters = counters
	return nil
}
