package engine

import (
	"context"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// DefaultWatchInterval is how often instances are looked at by default.
const DefaultWatchInterval = 10 * time.Second

// leastWatch bounds how often that is when instances hang after a short time.
const leastWatch = 20 * time.Millisecond

// watch is the goroutine that looks for instances that hang.
type watch struct {
	stop context.CancelFunc // nil when nothing runs
	wg   sync.WaitGroup
}

func (w *watch) start(e *Engine) {
	interval := e.o.WatchInterval
	if interval < 0 {
		return
	}
	if h := e.o.HangTimeout; h > 0 {
		interval = max(leastWatch, min(interval, h/4))
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			for _, m := range e.life.Alive() {
				m.Watch(backend.Now())
			}
		}
	})
}

func (w *watch) end() {
	if w.stop != nil {
		w.stop()
		w.wg.Wait()
	}
}
