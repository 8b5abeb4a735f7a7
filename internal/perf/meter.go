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
	done, last           tally // until the window under way began, and until the last tick
	tickAt               int64
	looks                int
}

// tally is how many requests have been answered and have failed, and the sum of the
// latencies.
type tally struct{ answered, failed, latency int64 }

// look is how often the counts are looked at; each tick of the time line has some.
const (
	look       = 50 * time.Millisecond
	looksATick = 10
)

// windows measures until three agree or there have been as many as allowed. cut is
// what ended it early: context.Canceled, or why no request is answered any more.
func (m *meter) windows(ctx context.Context) (all []*measure.Window, stable bool, cut error) {
	start := m.load.Begun // not when this goroutine has come here: what was sent meanwhile is in the first window
	for len(all) < m.o.MaxTrials {
		w, err := m.window(ctx, start)
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
		start = drive.Now()
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

func (m *meter) window(ctx context.Context, start int64) (*measure.Window, error) {
	before, server, client := m.counters, m.serverCPU, m.clientCPU
	cut := m.wait(ctx, start)
	end := drive.Now()
	w := m.recorder.Take()
	w.Start, w.End = start, end
	m.done = tally{m.done.answered + w.Count, m.done.failed + w.Failed(), m.done.latency + w.Sums.Latency}
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
	m.watch.anew()
	for {
		select {
		case <-ctx.Done():
			return context.Canceled
		case <-m.load.Done():
			return nil
		case <-t.C:
		}
		now := drive.Now()
		count, failed, latency := m.recorder.Counts()
		if m.looks++; m.looks%looksATick == 0 {
			m.tick(now, tally{m.done.answered + count, m.done.failed + failed, m.done.latency + latency})
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

// tick adds a moment to the time line: what has been counted since the last one.
func (m *meter) tick(now int64, t tally) {
	seconds := float64(now-m.tickAt) / 1e9
	count := t.answered - m.last.answered
	k := report.Tick{
		Seconds: float64(now-m.begin) / 1e9, Rate: float64(count) / seconds, MeanNS: (t.latency - m.last.latency) / max(count, 1),
		Failures: float64(t.failed-m.last.failed) / seconds,
	}
	m.ticks, m.last, m.tickAt = append(m.ticks, k), t, now
	m.shown.show(k, len(m.ticks))
}

// lastTick is the moment at the end, if it is long enough behind the one before.
func (m *meter) lastTick() {
	if now := drive.Now(); now-m.tickAt > int64(look) {
		m.tick(now, m.done)
	}
}
