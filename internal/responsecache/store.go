package responsecache

import (
	"context"
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/setting"
	"github.com/nesoserve/neso/tensor"
)

// Outcome says what became of an insertion.
type Outcome uint8

// The outcomes of an insertion.
const (
	Stored  Outcome = iota // the entry is kept, or on its way
	Present                // another request has stored an answer under the key meanwhile
	Refused                // too large, or there is no room for it on the way
)

// Store keeps answers. Its methods are called concurrently.
type Store interface {
	// Lookup returns the entry of a key with a reference for the caller, or nil.
	// The time it takes is bounded; a store in memory does not wait.
	Lookup(ctx context.Context, k Key) *Entry
	// Largest returns how many bytes an answer can have at most.
	Largest() int64
	// Insert consumes the caller's reference. It does not wait; the text of an
	// error says why the entry was refused.
	Insert(k Key, e *Entry) (Outcome, error)
	// Discredit counts an entry that Lookup has returned and that cannot be an
	// answer; the entry stays the caller's.
	Discredit(k Key, err error)
	// Shared reports whether other processes read and write the same store, so
	// that keys have to mean the same there, entries are foreign bytes, and a
	// look-up takes a trip over the network.
	Shared() bool
	// Numbers returns what the store has counted.
	Numbers() Numbers
	// Close gives back all memory and stops what runs. The store may still be
	// called, and then keeps nothing. It may be called more than once.
	Close() error
}

// Numbers is what a store has counted, and holds.
type Numbers struct {
	// Local is false for a store in another process. Then only Lookups, Hits, Misses,
	// Failures and Up have a meaning.
	Local                                       bool
	Entries                                     int
	Used, Size                                  int64 // bytes
	Lookups, Hits, Misses, Evictions            uint64
	LookupNanos, InsertionNanos                 uint64
	Failures, Dropped, BadEntries, Reconnection uint64 // of a shared store
	Up                                          bool   // a shared store answers
}

// Options say which store to open.
type Options struct {
	// Name is "local", "redis" or that of a library, and Settings are those of
	// --cache-config.
	Name     string
	Settings map[string]string
	// Text is what a library is told in place of Settings; empty means those.
	Text string
	// Directory is where libraries of caches lie, and Libraries runs them; nil where
	// the server cannot.
	Directory string
	Libraries backend.Libraries
	// Host takes the metrics that a library makes.
	Host backend.Host
	// Allocator gives the memory of entries that are read from elsewhere.
	Allocator tensor.Allocator
	Logger    *slog.Logger
	// Words are what messages call settings of the server.
	Words setting.Words
}
