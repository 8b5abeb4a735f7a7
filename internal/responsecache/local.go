package responsecache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// local keeps entries in memory, up to a number of bytes, and drops those that
// were not asked for for the longest time. One mutex guards index and order; it
// is held for a few pointer moves: keys are hashed, answers copied and memory
// freed outside of it.
type local struct {
	limit int64

	lookups, hits, evictions    atomic.Uint64
	lookupNanos, insertionNanos atomic.Uint64

	mu      sync.Mutex
	entries map[Key]*node
	newest  node // the ring's anchor: newest.next was used last, newest.prev the longest ago
	used    int64
	closed  bool
}

type node struct {
	key        Key
	entry      *Entry
	size       int64
	prev, next *node
}

func newLocal(limit int64) *local {
	l := &local{limit: limit, entries: map[Key]*node{}}
	l.newest.prev, l.newest.next = &l.newest, &l.newest
	return l
}

func (l *local) Lookup(_ context.Context, k Key) *Entry {
	from := backend.Now()
	var e *Entry
	l.mu.Lock()
	if n := l.entries[k]; n != nil {
		n.unlink()
		l.linkLocked(n)
		e = n.entry.Retain() // before anyone can evict it
	}
	l.mu.Unlock()
	l.lookups.Add(1)
	if e != nil {
		l.hits.Add(1)
	}
	l.lookupNanos.Add(uint64(backend.Now() - from))
	return e
}

func (l *local) Insert(k Key, e *Entry) (Outcome, error) {
	from := backend.Now()
	n := &node{key: k, entry: e, size: e.size()}
	if n.size > l.limit {
		e.Release()
		return Refused, tooLarge(n.size, l.limit)
	}
	var out *node // what is dropped, linked by next
	count := uint64(0)
	l.mu.Lock()
	if l.closed || l.entries[k] != nil {
		l.mu.Unlock()
		e.Release()
		return Present, nil
	}
	for l.used+n.size > l.limit {
		last := l.newest.prev
		last.unlink()
		delete(l.entries, last.key)
		l.used -= last.size
		last.next, out = out, last
		count++
	}
	l.entries[k] = n
	l.linkLocked(n)
	l.used += n.size
	l.mu.Unlock()
	for ; out != nil; out = out.next {
		out.entry.Release()
	}
	l.evictions.Add(count)
	l.insertionNanos.Add(uint64(backend.Now() - from))
	return Stored, nil
}

func (n *node) unlink() { n.prev.next, n.next.prev = n.next, n.prev }

// linkLocked makes n the one that was used last.
func (l *local) linkLocked(n *node) {
	n.prev, n.next = &l.newest, l.newest.next
	n.prev.next, n.next.prev = n, n
}

// Discredit does nothing: what this process has stored are answers.
func (l *local) Discredit(Key, error) {}

func (l *local) Shared() bool { return false }

func (l *local) Largest() int64 { return l.limit }

func (l *local) Numbers() Numbers {
	l.mu.Lock()
	entries, used := len(l.entries), l.used
	l.mu.Unlock()
	hits, lookups := l.hits.Load(), l.lookups.Load()
	return Numbers{
		Local: true, Entries: entries, Used: used, Size: l.limit, Lookups: lookups, Hits: min(hits, lookups),
		Misses:    lookups - min(hits, lookups),
		Evictions: l.evictions.Load(), LookupNanos: l.lookupNanos.Load(), InsertionNanos: l.insertionNanos.Load(), Up: true,
	}
}

func (l *local) Close() error {
	l.mu.Lock()
	all := l.entries
	l.entries, l.used, l.closed = map[Key]*node{}, 0, true
	l.newest.prev, l.newest.next = &l.newest, &l.newest
	l.mu.Unlock()
	for _, n := range all {
		n.entry.Release()
	}
	return nil
}
