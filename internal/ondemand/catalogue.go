package ondemand

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/repository"
)

const (
	// catalogueAge is how old the list of models is at least before a name that is not
	// in it has it read again: who asks for names that are nowhere costs no more.
	catalogueAge = time.Second
	// catalogueTimeout bounds how long that takes.
	catalogueTimeout = 5 * time.Second
)

// catalogue is which models the repositories have.
type catalogue struct {
	list  func(ctx context.Context) ([]repository.Entry, error)
	names atomic.Pointer[map[string]bool]

	mu sync.Mutex // held while the list is read
	at int64      // when it was read last; 0 for never
}

// has reports whether the list, as it is, has the name.
func (c *catalogue) has(name string) bool {
	names := c.names.Load()
	return names != nil && (*names)[name]
}

// refreshed is has, once the list has been read again if it is old enough; fresh says
// that it has.
func (c *catalogue) refreshed(name string) (found, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := backend.Now(); c.at == 0 || now-c.at >= int64(catalogueAge) {
		ctx, cancel := context.WithTimeout(context.Background(), catalogueTimeout)
		defer cancel()
		entries, err := c.list(ctx)
		names := make(map[string]bool, len(entries))
		for _, e := range entries {
			names[e.Name] = true
		}
		if old := c.names.Load(); err != nil && old != nil {
			maps.Copy(names, *old) // a repository that cannot be read has what it had
		}
		c.names.Store(&names)
		c.at, fresh = backend.Now(), true
	}
	return c.has(name), fresh
}
