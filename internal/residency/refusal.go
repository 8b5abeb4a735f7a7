package residency

import (
	"fmt"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

// failed is the answer to a request for a model whose load has failed not long ago.
func (m *Machine) failed(e *entry, now int64) *backend.Error {
	left := time.Duration(max(0, e.retry-now))
	err := backend.Errorf(backend.Unavailable, "model '%s' could not be loaded, and is tried again in %s: %s", e.name,
		max(left, time.Second).Round(time.Second), strings.TrimSpace(e.failure.Error()))
	err.RetryAfter = max(left, time.Second)
	return err
}

// full is the answer to a request too many.
func (m *Machine) full(name string) *backend.Error {
	err := backend.Errorf(backend.Unavailable, "model '%s' is not loaded, and %d requests wait for models already (%s)", name, m.waiting,
		m.o.Words.Name("on-demand-max-waiting"))
	err.RetryAfter = time.Second
	return err
}

// noRoom is the answer to a request whose model does not fit.
func (s *step) noRoom(name string, need, stays int64) *backend.Error {
	limit := s.o.Words.Name("model-memory-limit")
	if need > s.o.Limit {
		return backend.Errorf(backend.Unavailable, "there is no memory for model '%s': it needs about %s, and the limit is %s (%s)", name,
			size(need), size(s.o.Limit), limit)
	}
	err := backend.Errorf(backend.Unavailable, "there is no memory for model '%s': it needs about %s, and of the limit of %s (%s) models "+
		"that cannot be evicted, pinned or waiting for others, hold %s", name, size(need), size(s.o.Limit), limit, size(stays))
	err.RetryAfter = time.Second
	return err
}

// size is a number of bytes for people.
func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
