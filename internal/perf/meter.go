package perf

import (
	"context"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/load"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/report"
	"github.com/nesoserve/neso/internal/perf/target"
)

// meter measures one load, window by window.
type meter struct {
	*session
	level    float64
	load     *load.Load
	recorder *measure.Recorder
	names    []string
	shown    *progress
	watch    *watch
	metrics  *collector // nil without

	begin                int64
	counters             []target.Counters
	serverCPU, clientCPU float64
	ticks                []report.Tick
}

// look is how often the counts are looked at; each tick of the time line has some.
const (
	look       = 50 * time.Millisecond
	looksATick = 10
)

// windows measures until three agree or there have been as many as allowed. cut is
// what ended it early: context.Canceled, or why no request is answered any more.
func (m *meter) windows(ctx context.Context) (all []*measure.Window, stable bool, cut error) {
	for len(all) < m.o.MaxTrials {
		w, err := m.window(ctx)
		all = append(all, w)
		if m.o.Verbose > 0 && w.Count > 0 {
			m.shown.clear()
			m.report.Pass(m.env.Stdout, len(all), w)
		}
		if err != nil {
			return all, false, err
		}
		if m.o.RequestCount > 0 {
			return all, true, nil
		}
		if measure.Stable(all, m.o.Stability, m.o.Percentile, true) {
			return all, true, nil
		}
		if m.hopelesslyLate(all) {
			return all, true, nil
		}
	}
	return all, false, nil
}

// hopelesslyLate reports whether the last windows are all beyond the limit of latency.
func (m *meter) hopelesslyLate(all []*measure.Window) bool {
	if m.o.LatencyLimit == 0 || len(all) < measure.StableWindows {
		return false
	}
	for _, w := range all[len(all)-measure.StableWindows:] {
		if time.Duration(w.Latency(m.o.Percentile)) < m.o.LatencyLimit {
			return false
		}
	}
	return true
}

func (m *meter) window(ctx context.Context) (*measure.Window, error) {
	start := drive.Now()
	before, server, client := m.counters, m.serverCPU, m.clientCPU
	cut := m.wait(ctx, start)
	end := drive.Now()
	w := m.recorder.Take()
	w.Start, w.End = start, end
	if err := m.ask(ctx); err != nil && cut == nil {
		cut = err
	}
	w.Server = target.Since(m.counters, before)
	w.ClientCPU, w.ServerCPU = m.clientCPU-client, m.serverCPU-server
	if m.serverCPU < 0 || server < 0 {
		w.ServerCPU = -1
	}
	return w, because(cut, w)
}

// wait waits for the end of a window.
func (m *meter) wait(ctx context.Context, start int64) error {
	t := time.NewTicker(look)
	defer t.Stop()
	var lastCount, lastLatency int64
	tickAt := start
	m.watch.anew()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return context.Canceled
		case <-m.load.Done():
			return nil
		case <-t.C:
		}
		now := drive.Now()
		count, failed, latency := m.recorder.Counts()
		if n%looksATick == 0 {
			m.tick(now, tickAt, count-lastCount, latency-lastLatency)
			lastCount, lastLatency, tickAt = count, latency, now
		}
		if err := m.watch.look(now, count, failed); err != nil {
			return err
		}
		passed := time.Duration(now - start)
		if m.o.CountWindows {
			if m.o.RequestCount == 0 && count >= int64(m.o.WindowRequests) && passed >= time.Second {
				return nil
			}
		} else if passed >= m.o.Interval {
			return nil
		}
	}
}

func (m *meter) tick(now, before, count, latency int64) {
	seconds := float64(now-before) / 1e9
	k := report.Tick{Seconds: float64(now-m.begin) / 1e9, Rate: float64(count) / seconds, MeanNS: latency / max(count, 1)}
	m.ticks = append(m.ticks, k)
	m.shown.show(k, len(m.ticks))
}
