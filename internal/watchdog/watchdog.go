// Package watchdog sees whether the server's listeners go on accepting
// connections.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/internal/listen"
)

// probeTimeout is how long a listener may take to accept a connection.
const probeTimeout = 5 * time.Second

// accepting is a listener that counts the connections it has given away, by
// which the watchdog sees that its owner goes on accepting.
type accepting struct {
	net.Listener
	accepted atomic.Int64
	changed  chan struct{} // one place: looked at after each wake-up
	// shared says that other processes listen on the same port: a connection from
	// inside may be theirs, so only connections that wait here show anything.
	shared bool
}

func (a *accepting) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.accepted.Add(1)
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
	return c, err
}

// Watchdog connects to each listener from inside, now and then, and sees whether
// the connection is accepted; of a shared port it sees whether connections that
// wait are. One that accepts nothing is a fault.
type Watchdog struct {
	log      *slog.Logger
	fault    func(listener string, err error)
	interval time.Duration
	timeout  time.Duration

	mu        sync.Mutex
	listeners map[string]*accepting
	stuck     map[string]bool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// New returns a watchdog that looks every interval; a negative one means never.
func New(log *slog.Logger, interval time.Duration) *Watchdog {
	return &Watchdog{log: log, interval: interval, timeout: probeTimeout, listeners: map[string]*accepting{}, stuck: map[string]bool{}}
}

// Watch returns l as the watchdog follows it. Of one whose port other processes
// share it looks at the connections that wait, which it can on Linux only.
func (w *Watchdog) Watch(name string, l net.Listener, shared bool) net.Listener {
	if w.interval <= 0 {
		return l
	}
	if _, ok := listen.Waiting(l); shared && !ok {
		return l
	}
	a := &accepting{Listener: l, changed: make(chan struct{}, 1), shared: shared}
	w.mu.Lock()
	w.listeners[name] = a
	w.mu.Unlock()
	return a
}

// Start begins to probe, until End. fault is told what each look at a listener
// finds, before Stuck says it; nil stands for no fault.
func (w *Watchdog) Start(fault func(listener string, err error)) {
	w.fault = fault
	if w.interval <= 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, a := range w.listeners {
		w.wg.Go(func() {
			t := time.NewTicker(w.interval)
			defer t.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				}
				err := w.probe(ctx, a)
				if ctx.Err() != nil {
					return // the server stops, and its listeners with it
				}
				w.report(name, err)
			}
		})
	}
}

// End stops probing. It may be called more than once.
func (w *Watchdog) End() {
	if w.stop != nil {
		w.stop()
		w.wg.Wait()
	}
}

// probe connects and waits until a connection has been accepted: any, since the
// first that is shows what is asked.
func (w *Watchdog) probe(ctx context.Context, a *accepting) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	before := a.accepted.Load()
	if a.shared {
		if n, ok := listen.Waiting(a.Listener); !ok || n == 0 {
			return nil
		}
	} else {
		network, address := reachable(a.Addr())
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			if a.accepted.Load() > before {
				return nil // it was this process that could not connect
			}
			return fmt.Errorf("a connection from inside failed: %w", err)
		}
		defer c.Close()
	}
	for a.accepted.Load() == before {
		select {
		case <-a.changed:
		case <-ctx.Done():
			return errNotAccepted
		}
	}
	return nil
}

var errNotAccepted = errors.New("connections are not accepted")

// reachable returns where a listener's own machine reaches it.
func reachable(addr net.Addr) (network, address string) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.Network(), addr.String()
	}
	host := "127.0.0.1"
	if tcp.IP.To4() == nil {
		host = "::1" // a wildcard of both families listens there, too
	}
	return "tcp", net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// report keeps what was found, and logs changes.
func (w *Watchdog) report(name string, err error) {
	w.fault(name, err)
	w.mu.Lock()
	was := w.stuck[name]
	w.stuck[name] = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !was:
		w.log.Error("a listener does not answer", "listener", name, "error", err)
	case err == nil && was:
		w.log.Info("a listener answers again", "listener", name)
	}
}

// Stuck returns the listeners that are followed, and whether they are stuck.
func (w *Watchdog) Stuck() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]bool, len(w.listeners))
	for name := range w.listeners {
		all[name] = w.stuck[name]
	}
	return all
}
