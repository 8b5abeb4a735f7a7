package tune

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/perf"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/report"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// mostConfig bounds a configuration that a server tells.
const mostConfig = 16 << 20

// config asks for a configuration as the server has completed it.
func (l *live) config(ctx context.Context, model string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.HTTP+"/v2/models/"+url.PathEscape(model)+"/config", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostConfig))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the configuration of the model %s: HTTP status %d: %s", model, answer.StatusCode, text)
	}
	return text, err
}

// hasGPUs reports whether the server's metrics tell of GPUs.
func (l *live) hasGPUs(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false // the measurement will tell
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, mostConfig)) // what is there of it
	return bytes.Contains(text, []byte("\nnv_gpu_memory_total_bytes{"))
}

// levels measures a server under one load after the other, into r. A server that ends is a
// result.
func (s *study) levels(ctx context.Context, l *live, r *trial.Run, loads []trial.Load) {
	if loads != nil {
		for _, load := range loads {
			s.add(ctx, l, r, load)
		}
		return
	}
	of := &s.Models[0].Loads
	for _, batch := range of.Batch {
		switch {
		case len(of.Rate) > 0:
			for _, rate := range of.Rate {
				s.add(ctx, l, r, trial.Load{Rate: rate, Batch: batch})
			}
		case of.Sweep:
			s.sweep(ctx, l, r, batch)
		default:
			for _, c := range of.Concurrency {
				s.add(ctx, l, r, trial.Load{Concurrency: c, Batch: batch})
			}
		}
	}
}

// add measures one load more, unless the run is at its end.
func (s *study) add(ctx context.Context, l *live, r *trial.Run, load trial.Load) *trial.Level {
	if ctx.Err() != nil || r.Failure != "" {
		return nil
	}
	s.progress.level(load)
	level := s.level(ctx, l, load, r.Effort)
	if ctx.Err() != nil && level.Failure != "" {
		return nil
	}
	r.Levels = append(r.Levels, level)
	if level.Failure != "" && l.Gone(ctx) {
		r.Failure = l.Failure().Error()
	}
	return &r.Levels[len(r.Levels)-1]
}

// A sweep ends when so many doublings together have gained less than this share.
const (
	sweepGain  = 0.05
	sweepQuiet = 2
)

// sweep doubles the concurrency as long as more is answered and the limits are kept.
func (s *study) sweep(ctx context.Context, l *live, r *trial.Run, batch int) {
	of := &s.Models[0].Loads
	top, quiet := 0.0, 0
	for c := of.Low; c <= of.High; c *= 2 {
		level := s.add(ctx, l, r, trial.Load{Concurrency: c, Batch: batch})
		if level == nil || level.Failure != "" {
			return
		}
		sum := 0.0
		for _, n := range level.Models {
			sum += n.Throughput.Mean
		}
		if quiet++; sum > top*(1+sweepGain) {
			top, quiet = sum, 0
		}
		if quiet >= sweepQuiet || s.goal.Score(level).Excess > 0 {
			return
		}
	}
}

// level measures all models at once under one load.
func (s *study) level(ctx context.Context, l *live, load trial.Load, effort int) trial.Level {
	out := trial.Level{Load: load, Models: map[string]*trial.Number{}}
	limit, cancel := context.WithTimeout(ctx, s.plan.Timeout*time.Duration(effort))
	defer cancel()
	memory := l.Watch(limit)
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, m := range s.Models {
		group.Go(func() {
			n, gpu, err := s.load(limit, l, &m, load, effort)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				cancel() // of the others, which share the server
				if out.Failure == "" {
					out.Failure = measure.Plain(err.Error())
				}
				return
			}
			out.Models[m.Name] = n
			out.GPUs = gpu
		})
	}
	group.Wait()
	seen := memory()
	out.Memory, out.Free = seen.Used, seen.Free
	if out.Failure != "" {
		out.Models = nil
	}
	return out
}

// load has one model measured.
func (s *study) load(
	ctx context.Context, l *live, m *ModelPlan, load trial.Load, effort int,
) (*trial.Number, map[string]*trial.GPU, error) {
	o, err := options.Parse(s.arguments(m, load, effort))
	if err != nil {
		return nil, nil, err
	}
	o.URL = l.HTTP
	if o.Protocol == "grpc" {
		o.URL = l.GRPC
	}
	if o.CollectMetrics = o.CollectMetrics || l.gpus; o.CollectMetrics {
		o.MetricsURL = l.Metrics + "/metrics"
	}
	run, err := perf.Measure(ctx, o, s.env.Version)
	if run == nil || len(run.Results) == 0 {
		if err == nil {
			err = fmt.Errorf("not measured within %v", s.plan.Timeout*time.Duration(effort))
		}
		return nil, nil, err
	}
	x := &run.Results[len(run.Results)-1]
	if w := x.Window; w.Failed() > 0 {
		e := w.Errors[0]
		return nil, nil, fmt.Errorf("%d of %d requests failed: %s: %s", w.Failed(), w.Failed()+w.Count, e.Kind, e.Text)
	}
	if err != nil {
		return nil, nil, err
	}
	return number(x, o.Batch), gpus(&x.GPU), nil
}

// arguments are the options of the load.
func (s *study) arguments(m *ModelPlan, load trial.Load, effort int) []string {
	args := append(slices.Clone(m.Perf), "-m", m.Name, "-b", strconv.Itoa(load.Batch),
		"--measurement-interval", strconv.FormatInt(s.plan.Interval.Milliseconds()*int64(effort), 10),
		"--stability-percentage", strconv.FormatFloat(s.plan.Stability, 'g', -1, 64), "--max-trials", strconv.Itoa(s.plan.Windows))
	if load.Rate > 0 {
		return append(args, "--request-rate-range", strconv.FormatFloat(load.Rate, 'g', -1, 64))
	}
	return append(args, "--concurrency-range", strconv.Itoa(load.Concurrency))
}

// number is what the windows of a load say. Of a stable load the last ones count, of
// another one all.
func number(x *report.Result, batch int) *trial.Number {
	windows := x.Windows
	if x.Stable && len(windows) > measure.StableWindows {
		windows = windows[len(windows)-measure.StableWindows:]
	}
	of := func(get func(*measure.Window) float64) trial.Stat {
		var values []float64
		for _, w := range windows {
			if w.Count > 0 {
				values = append(values, get(w))
			}
		}
		return trial.StatOf(values)
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	n := &trial.Number{Stable: x.Stable, Requests: x.Window.Count, Latency: map[string]trial.Stat{}, Notes: x.Notes}
	n.Throughput = of(func(w *measure.Window) float64 { return w.Rate() * float64(batch) })
	n.Latency["avg"] = of(func(w *measure.Window) float64 { return ms(w.Mean()) })
	for _, p := range []int{50, 90, 95, 99} {
		n.Latency["p"+strconv.Itoa(p)] = of(func(w *measure.Window) float64 { return ms(w.Histogram.ValueAtPercentile(float64(p))) })
	}
	if x.Window.ServerCPU >= 0 {
		n.CPU = of(func(w *measure.Window) float64 { return max(w.ServerCPU, 0) * 1e6 / float64(w.Count*int64(batch)) })
	}
	w := x.Window
	count := max(w.Count, 1)
	n.SendRecv = ms((w.Send + w.Receive) / count)
	n.Wait = max(0, ms(w.Service/count)-n.SendRecv)
	if len(w.Server) > 0 {
		c := &w.Server[0]
		n.Queue, n.Input = ms(c.Phases["queue"].MeanNS()), ms(c.Phases["compute_input"].MeanNS())
		n.Infer, n.Output = ms(c.Phases["compute_infer"].MeanNS()), ms(c.Phases["compute_output"].MeanNS())
		if c.Executions > 0 {
			n.BatchLen = float64(c.Inferences) / float64(c.Executions)
		}
	}
	return n
}

func gpus(g *report.GPU) map[string]*trial.GPU {
	if len(g.TotalBytes) == 0 {
		return nil
	}
	all := map[string]*trial.GPU{}
	for id, total := range g.TotalBytes {
		all[id] = &trial.GPU{Used: g.UsedBytes[id], Total: total, Utilization: g.Utilization[id], Power: g.Power[id]}
	}
	return all
}
