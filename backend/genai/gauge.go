package genai

import (
	"strconv"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// gauge shows how much memory keys and values have. Who sets it does not wait: the metrics may be
// another process's.
type gauge struct {
	bytes, share backend.Metric // share is of all that there is, as gateways read it
	copy         backend.Metric
	limit        int64
	value, beams atomic.Int64
	changed      chan struct{} // has room for one
	stop         chan struct{}
	done         chan struct{}
}

// newGauge returns nil where there is a host without metrics; its methods are then without effect.
func (m *model) newGauge(limit int64) *gauge {
	host := m.driver.host
	g := &gauge{limit: limit, changed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	for _, f := range []struct {
		name, description string
		labels            map[string]string
		to                *backend.Metric
	}{
		{
			"neso_generation_cache_bytes", "Memory of keys and values that requests of a language model have",
			map[string]string{"model": m.cfg.Name, "version": strconv.FormatInt(m.cfg.Version, 10)},
			&g.bytes,
		},
		{
			"vllm:kv_cache_usage_perc", "Share of the memory of keys and values that is in use",
			map[string]string{"model_name": m.cfg.Name},
			&g.share,
		},
		{
			"neso_generation_beam_weights_bytes", "Weights that a language model has a second time, for searches of beams",
			map[string]string{"model": m.cfg.Name, "version": strconv.FormatInt(m.cfg.Version, 10)},
			&g.copy,
		},
	} {
		metric, err := host.Metric(backend.MetricFamily{Name: f.name, Description: f.description, Kind: backend.Gauge}, f.labels)
		if err != nil {
			host.Logger().Warn("no metric of the cache of keys and values", "model", m.cfg.Name, "error", err)
			g.release()
			return nil
		}
		*f.to = metric
	}
	go g.run()
	return g
}

func (g *gauge) set(v int64) {
	if g == nil {
		return
	}
	g.value.Store(v)
	g.change()
}

// setCopy says how many bytes of weights there are a second time.
func (g *gauge) setCopy(v int64) {
	if g == nil {
		return
	}
	g.beams.Store(v)
	g.change()
}

func (g *gauge) change() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *gauge) run() {
	defer close(g.done)
	defer g.release()
	for {
		select {
		case <-g.changed:
			v := float64(g.value.Load())
			// A server that is gone shows nothing.
			_, _, _ = g.bytes.Set(v), g.share.Set(v/float64(g.limit)), g.copy.Set(float64(g.beams.Load()))
		case <-g.stop:
			return
		}
	}
}

func (g *gauge) release() {
	for _, m := range []backend.Metric{g.bytes, g.share, g.copy} {
		if m != nil {
			m.Release()
		}
	}
}

func (g *gauge) close() {
	if g != nil {
		close(g.stop)
		<-g.done
	}
}
