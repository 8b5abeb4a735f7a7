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
	limit        int64
	value        atomic.Int64
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
	} {
		metric, err := host.Metric(backend.MetricFamily{Name: f.name, Description: f.description, Kind: backend.Gauge}, f.labels)
		if err != nil {
			host.Logger().Warn("no metric of the cache of keys and values", "model", m.cfg.Name, "error", err)
			if g.bytes != nil {
				g.bytes.Release()
			}
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
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *gauge) run() {
	defer close(g.done)
	defer g.share.Release()
	defer g.bytes.Release()
	for {
		select {
		case <-g.changed:
			v := float64(g.value.Load())
			_, _ = g.bytes.Set(v), g.share.Set(v/float64(g.limit)) // a server that is gone shows nothing
		case <-g.stop:
			return
		}
	}
}

func (g *gauge) close() {
	if g != nil {
		close(g.stop)
		<-g.done
	}
}
