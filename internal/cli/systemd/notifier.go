// Package systemd tells the service manager that started the server how it is: ready,
// stopping, and, where a watchdog waits for it, alive. The protocol is that of
// sd_notify(3): datagrams of lines to the Unix socket that NOTIFY_SOCKET names.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// sendTimeout bounds how long a manager that reads nothing holds a message up.
const sendTimeout = 5 * time.Second

// Notifier is the connection with the manager. A nil one tells nobody anything.
type Notifier struct {
	log      *slog.Logger
	conn     *net.UnixConn
	interval time.Duration // between signs of life; 0 without a watchdog

	ready chan func() error // one place: what Ready was given
	end   chan struct{}
	ended sync.Once
	done  chan struct{}
}

// Open connects with the manager that the environment names, and takes the names out
// of the environment: workers are not to speak for the server. Without a manager, or
// with one that cannot be reached, which the log says, it returns nil. When ctx ends,
// the manager is told that the server stops.
func Open(ctx context.Context, log *slog.Logger) *Notifier {
	address, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if address == "" {
		return nil
	}
	conn, err := dial(address)
	if err != nil {
		log.Warn("the service manager cannot be told of the server's state", "NOTIFY_SOCKET", address, "error", err)
		return nil
	}
	interval, err := watchdog(usec, pid)
	if err != nil {
		log.Warn("no signs of life for the service manager's watchdog", "error", err)
	}
	n := &Notifier{
		log: log, conn: conn, interval: interval,
		ready: make(chan func() error, 1), end: make(chan struct{}), done: make(chan struct{}),
	}
	go n.run(ctx)
	return n
}

// dial takes what systemd gives: an absolute path, or @ and a name of the abstract
// namespace.
func dial(address string) (*net.UnixConn, error) {
	if address[0] != '/' && address[0] != '@' {
		return nil, fmt.Errorf("expected an absolute path, or @ and a name, got %q", address)
	}
	return net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
}

// watchdog returns how often the watchdog is told, twice as often as it expects it.
func watchdog(usec, pid string) (time.Duration, error) {
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil // of another process
	}
	v, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || v <= 0 || v > math.MaxInt64/int64(time.Microsecond) {
		return 0, fmt.Errorf("WATCHDOG_USEC: expected a number of microseconds above 0, got %q", usec)
	}
	return max(time.Duration(v)*time.Microsecond/2, time.Microsecond), nil
}

// Ready tells that the server serves. From now on the watchdog is told as long as
// alive returns nil.
func (n *Notifier) Ready(alive func() error) {
	if n == nil {
		return
	}
	select {
	case n.ready <- alive:
	default: // it has been told
	}
}

// Close ends the connection, after a last word that the server stops. It may be called
// twice.
func (n *Notifier) Close() {
	if n == nil {
		return
	}
	n.ended.Do(func() { close(n.end) })
	<-n.done
}

// run sends all messages, one after the other.
func (n *Notifier) run(ctx context.Context) {
	defer close(n.done)
	defer n.conn.Close()
	var (
		stopping = ctx.Done()
		ready    = n.ready
		alive    func() error
		tick     <-chan time.Time
		silent   bool
	)
	for {
		select {
		case alive = <-ready:
			ready = nil
			n.send("READY=1\nSTATUS=Serving")
			if n.interval > 0 {
				t := time.NewTicker(n.interval)
				defer t.Stop()
				tick = t.C
			}
		case <-stopping:
			n.send("STOPPING=1\nSTATUS=Answering the last requests")
			stopping, ready = nil, nil
			// Requests in flight have until --exit-timeout-secs, which the manager bounds.
			alive = func() error { return nil }
		case <-tick:
			if err := alive(); err == nil {
				n.send("WATCHDOG=1")
				silent = false
			} else if !silent {
				n.log.Error("no signs of life for the service manager's watchdog", "error", err)
				silent = true
			}
		case <-n.end:
			if stopping != nil {
				n.send("STOPPING=1")
			}
			return
		}
	}
}

// send sends one message. What cannot be sent is told, and lost.
func (n *Notifier) send(message string) {
	err := n.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err == nil {
		_, err = n.conn.Write([]byte(message))
	}
	if err != nil {
		n.log.Warn("the service manager was not told", "message", message, "error", err)
	}
}
