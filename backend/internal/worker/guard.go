package worker

import "sync"

// guard gives a part of what a lock guards to who has taken the lock, and to nobody
// else. So the methods of the parts are called with the lock held, and need not say so.
type guard[T any] struct {
	mu   *sync.Mutex
	part *T
}

// lock returns the part, which is the caller's until unlock.
func (g guard[T]) lock() *T {
	g.mu.Lock()
	return g.part
}

func (g guard[T]) unlock() { g.mu.Unlock() }
