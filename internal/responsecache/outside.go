package responsecache

import (
	"sync"
	"sync/atomic"
)

// prefix stands before the keys in a store outside of the server, with the version of
// their format.
const prefix = "neso:1:"

// outside is what stores have in common that keep entries in another process. What
// they are told there is not believed. Insertions are handed to one goroutine
// (writer.go), so no answer waits for them. While the other process does not answer,
// nobody asks it (circuit.go).
type outside struct {
	o       Options
	circuit circuit
	writer  writer
	// refusing says that a refusal to store has been logged. The writer's goroutine
	// owns it.
	refusing bool
	// end ends the way to the other process.
	end func() error

	lookups, hits, bad atomic.Uint64
	// complained says that a bad entry has been logged: the next ones are counted.
	complained atomic.Bool

	closing  sync.Once
	closeErr error
}

// begin counts a look-up. It returns what waits to be written, or says whether the
// other process is to be asked.
func (s *outside) begin(k Key) (e *Entry, ask bool) {
	s.lookups.Add(1)
	if e := s.writer.pending(k); e != nil {
		s.hits.Add(1)
		return e, false
	}
	return nil, s.circuit.closed()
}

// found returns the entry in what the other process had, nil if it is none.
func (s *outside) found(value []byte, k Key) *Entry {
	e, err := decode(value, k, s.o.Allocator)
	if err != nil {
		s.Discredit(k, err)
		return nil
	}
	s.hits.Add(1)
	return e
}

// Discredit counts an entry that no server of ours has stored, and logs the first
// one.
func (s *outside) Discredit(k Key, err error) {
	s.bad.Add(1)
	if !s.complained.Swap(true) {
		s.o.Logger.Warn("the response cache holds a value that is no response; it is ignored, as are further ones",
			"cache", s.o.Name, "key", prefix+k.String(), "error", err)
	}
}

func (s *outside) Insert(k Key, e *Entry) (Outcome, error) {
	size, ok := encodedSize(e)
	if !ok {
		e.Release()
		return Refused, tooLarge(MaxValue+1, MaxValue)
	}
	if !s.circuit.closed() {
		e.Release()
		return Refused, nil // logged when it opened
	}
	return s.writer.add(k, e, size), nil
}

// Shared implements Store: who knows where the other process keeps what it is given,
// and who else writes there.
func (s *outside) Shared() bool { return true }

func (s *outside) Largest() int64 { return MaxValue }

func (s *outside) Numbers() Numbers {
	hits, lookups := s.hits.Load(), s.lookups.Load()
	return Numbers{
		Lookups: lookups, Hits: min(hits, lookups), Misses: lookups - min(hits, lookups), Up: s.circuit.closed(),
		Failures: s.circuit.failures.Load(), Reconnection: s.circuit.returns.Load(), Dropped: s.writer.dropped.Load(), BadEntries: s.bad.Load(),
	}
}

// Close stops what runs. Entries that have not been written are dropped.
func (s *outside) Close() error {
	s.closing.Do(func() {
		s.writer.close()
		s.circuit.close()
		s.closeErr = s.end()
	})
	return s.closeErr
}
