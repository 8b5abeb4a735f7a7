package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/instance"
)

// closing is what Close adds to the pins: far below any count.
const closing = int64(-1) << 40

// Pin keeps the version loaded for one request; it fails once Close has begun.
func (m *Model) Pin() bool {
	if m.pins.Add(1) > 0 {
		return true
	}
	m.Unpin()
	return false
}

// Unpin ends a Pin.
func (m *Model) Unpin() {
	if n := m.pins.Add(-1); n < 0 && n-closing <= m.abandoned.Load() {
		m.signal()
	}
}

// Refuse has the version refuse pins, as Close does, if nobody has it: no request, and no
// sequence. Close or Admit follows, by the same caller.
func (m *Model) Refuse() bool {
	if !m.pins.CompareAndSwap(0, closing) {
		return false
	}
	m.closing.Store(true)
	if m.Unfinished() > 0 {
		m.Admit()
		return false
	}
	return true
}

// Admit undoes Refuse.
func (m *Model) Admit() {
	m.closing.Store(false)
	m.pins.Add(-closing)
}

// Abandon notes that the execution of a pinned request was abandoned, and with
// false that it has come back.
func (m *Model) Abandon(on bool) {
	if !on {
		m.abandoned.Add(-1)
		return
	}
	m.abandoned.Add(1)
	m.signal()
}

func (m *Model) signal() {
	select {
	case m.drained <- struct{}{}:
	default: // one signal is enough
	}
}

// Inflight returns how many requests are pinned.
func (m *Model) Inflight() int {
	n := m.pins.Load()
	if n < 0 {
		n -= closing
	}
	return int(max(0, n))
}

// Unfinished returns what a server that stops waits for: requests that are pinned,
// or sequences that have not ended where those are more.
func (m *Model) Unfinished() int {
	if s := m.sequence; s != nil && s.scheduler != nil {
		return max(m.Inflight(), s.scheduler.Open())
	}
	return m.Inflight()
}

// ErrBusy is in the error of a Close that left executions running.
var ErrBusy = errors.New("executions have not ended")

// Close refuses new pins, waits for pinned requests until ctx ends, then fails
// what is still queued, and closes instances and backend model. It may be
// called more than once: later calls wait for the first.
//
// Executions that go on after ctx has ended are interrupted. When a backend
// ignores that, Close returns an error with ErrBusy after a grace period and
// leaves the instances as they are, since closing what still runs is worse. It
// may then be called again.
func (m *Model) Close(ctx context.Context) error {
	if !m.closing.Swap(true) {
		m.pins.Add(closing)
	}
	m.closeLock.Lock()
	defer m.closeLock.Unlock()
	if m.closed {
		return m.closeErr
	}
	// Executions that were abandoned have been interrupted, and had their grace.
	if !m.drain(ctx, !m.interrupted) {
		end, cancel := context.WithTimeout(context.Background(), instance.Grace)
		defer cancel()
		err := m.scheduler.Close(end) // answers what is queued
		if m.pool != nil {
			m.pool.Interrupt()
		}
		if m.interrupted || m.Inflight() <= int(m.abandoned.Load()) { // it has had its grace
			cancel()
		}
		m.interrupted = true
		if !m.drain(end, false) {
			return errors.Join(err, fmt.Errorf("%w: %w", backend.Errorf(backend.Unavailable,
				"model '%s' version %d still executes %d requests; its instances stay open", m.config.Name, m.version, m.Inflight()), ErrBusy))
		}
	}
	m.closed = true
	if m.cache != nil && m.cache.flights != nil {
		m.cache.flights.work.Wait() // the requests that they answer are gone
	}
	end, cancel := context.WithTimeout(context.Background(), instance.Grace)
	defer cancel()
	m.closeErr = m.scheduler.Close(end)
	m.limits.Close()
	if m.pool != nil {
		m.closeErr = errors.Join(m.closeErr, m.pool.Close(), m.closeLoaded())
	}
	return m.closeErr
}

// drain waits until nothing is pinned, and reports whether that was so. Once it
// was, pins that are seen are of requests about to be refused. With loose it does
// not wait for what was abandoned.
func (m *Model) drain(ctx context.Context, loose bool) bool {
	for {
		left := m.pins.Load() - closing
		if left == 0 {
			return true
		}
		if loose && left <= m.abandoned.Load() {
			return false
		}
		select {
		case <-m.drained:
		case <-ctx.Done():
			return m.pins.Load() == closing
		}
	}
}
