package perf

import (
	"context"
	"fmt"
	"strings"
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

// patience is how long all requests may fail before the measurement is given up, and
// hopeless how many may at its very beginning.
const (
	patience = time.Second
	hopeless = 10
)

// windows measures until three agree or there have been as many as allowed. cut is
// what ended it early: context.Canceled, or why no request is answered any more.
func (m *meter) windows(ctx context.Context) (all []*measure.Window, stable bool, cut error) {
	for len(all) < m.o.MaxTrials {
		w, err := m.window(ctx, len(all) == 0)
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

func (m *meter) window(ctx context.Context, first bool) (*measure.Window, error) {
	start := drive.Now()
	before, server, client := m.counters, m.serverCPU, m.clientCPU
	cut := m.wait(ctx, start, first)
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
	if cut != nil && w.Count == 0 && len(w.Errors) > 0 {
		e := w.Errors[0]
		cut = fmt.Errorf("no request is answered (any more): %s (%d times)", strings.TrimSuffix(e.Kind+": "+e.Text, ": "), e.Count)
	}
	return w, cut
}

// wait waits for the end of a window.
func (m *meter) wait(ctx context.Context, start int64, first bool) error {
	t := time.NewTicker(look)
	defer t.Stop()
	var lastCount, lastLatency int64
	answered, answeredAt, failedAt := int64(0), start, int64(0)
	tickAt := start
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
		if count > answered || failed == failedAt && answered == 0 {
			answered, answeredAt, failedAt = count, now, failed
		}
		if n%looksATick == 0 {
			m.tick(now, tickAt, count-lastCount, latency-lastLatency)
			lastCount, lastLatency, tickAt = count, latency, now
		}
		if first && count == 0 && failed >= hopeless || failed > failedAt && now-answeredAt > int64(patience) {
			return errNoAnswer
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

var errNoAnswer = fmt.Errorf("no request is answered any more")

func (m *meter) tick(now, before, count, latency int64) {
	seconds := float64(now-before) / 1e9
	k := report.Tick{Seconds: float64(now-m.begin) / 1e9, Rate: float64(count) / seconds, MeanNS: latency / max(count, 1)}
	m.ticks = append(m.ticks, k)
	m.shown.show(k, len(m.ticks))
}
