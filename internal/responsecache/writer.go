package responsecache

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// maxPending and maxPendingBytes bound the entries on their way;
	// further ones are dropped.
	maxPending      = 1024
	maxPendingBytes = 128 << 20
	// maxBatch is how many entries go in one trip.
	maxBatch      = 64
	maxBatchBytes = 4 << 20
)

// writer brings entries to a store that is elsewhere. Until they are there it answers
// look-ups from what it holds: a client that has had its answer finds it in the cache.
type writer struct {
	send    func(batch []write) // brings a batch there, or drops it
	dropped atomic.Uint64

	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup
	wake chan struct{} // one place: there is something to write

	mu      sync.Mutex
	entries map[Key]*Entry
	queue   []write
	bytes   int
	closed  bool
}

type write struct {
	key  Key
	size int
}

func (w *writer) init(send func(batch []write)) {
	w.send, w.entries, w.wake = send, map[Key]*Entry{}, make(chan struct{}, 1)
	w.life, w.end = context.WithCancel(context.Background())
	w.wg.Go(w.run)
}

// pending returns an entry that is on its way, with a reference, or nil.
func (w *writer) pending(k Key) *Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[k]; e != nil {
		return e.Retain()
	}
	return nil
}

// add consumes a reference of e, whose encoded size is given.
func (w *writer) add(k Key, e *Entry, size int) Outcome {
	w.mu.Lock()
	outcome := Stored
	switch {
	case w.closed || len(w.queue) >= maxPending || w.bytes+size > maxPendingBytes:
		outcome = Refused
		w.dropped.Add(1)
	case w.entries[k] != nil:
		outcome = Present
	default:
		w.entries[k] = e
		w.queue = append(w.queue, write{k, size})
		w.bytes += size
	}
	w.mu.Unlock()
	if outcome != Stored {
		e.Release()
		return outcome
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
	return Stored
}

// run writes until close.
func (w *writer) run() {
	for {
		select {
		case <-w.life.Done():
			return
		case <-w.wake:
		}
		for batch := w.take(); len(batch) > 0 && w.life.Err() == nil; batch = w.take() {
			w.send(batch)
			w.written(batch)
		}
	}
}

// take returns the next entries, which stay pending.
func (w *writer) take() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(w.queue), maxBatch) && (n == 0 || bytes+w.queue[n].size <= maxBatchBytes) {
		bytes += w.queue[n].size
		n++
	}
	batch := w.queue[:n:n]
	w.queue = w.queue[n:]
	return batch
}

// entry returns what is written, which stays the writer's.
func (w *writer) entry(x write) *Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[x.key] // only the goroutine that writes takes it out
}

// written lets go of a batch.
func (w *writer) written(batch []write) {
	for _, x := range batch {
		w.mu.Lock()
		e := w.entries[x.key]
		delete(w.entries, x.key)
		w.bytes -= x.size
		w.mu.Unlock()
		e.Release()
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entries {
		e.Release()
	}
	w.entries, w.queue = nil, nil
}
