package responsecache

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// circuit keeps requests from waiting for a server that does not answer. The
// first failure opens it; then one goroutine asks the server from time to time
// until it answers, and closes it. Both are logged, once.
type circuit struct {
	log     *slog.Logger
	address string
	probe   func(context.Context) error

	isOpen            atomic.Bool
	failures, returns atomic.Uint64

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	closing bool
}

// Waits between probes: short enough to be back at once after a restart, long
// enough to cost a dead server nothing.
const (
	firstProbe = 100 * time.Millisecond
	lastProbe  = 2 * time.Second
)

func (c *circuit) init(log *slog.Logger, address string, probe func(context.Context) error) {
	c.log, c.address, c.probe = log, address, probe
	c.life, c.end = context.WithCancel(context.Background())
}

// closed reports whether the server may be asked.
func (c *circuit) closed() bool { return !c.isOpen.Load() }

// open notes a failure.
func (c *circuit) open(err error) {
	c.failures.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.isOpen.Swap(true) {
		return
	}
	c.log.Warn("the response cache does not answer; requests are served without it until it does", "address", c.address, "error", err)
	c.wg.Go(c.wait)
}

// wait ends when the server answers, or the circuit is no longer used.
func (c *circuit) wait() {
	timer := time.NewTimer(firstProbe)
	defer timer.Stop()
	for pause := firstProbe; ; {
		select {
		case <-c.life.Done():
			return
		case <-timer.C:
		}
		if c.probe(c.life) == nil {
			c.returns.Add(1)
			c.log.Info("the response cache answers again", "address", c.address)
			c.isOpen.Store(false)
			return
		}
		pause = min(2*pause, lastProbe)
		timer.Reset(pause)
	}
}

func (c *circuit) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.isOpen.Store(true)
	c.end()
	c.wg.Wait()
}
