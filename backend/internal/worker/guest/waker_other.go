//go:build !linux

package guest

import "sync"

// waker is what the thread of an instance waits on.
type waker struct {
	mu   *sync.Mutex
	cond sync.Cond
}

// wait gives mu up until signal; it may return without.
func (w *waker) wait(bool) {
	w.cond.L = w.mu
	w.cond.Wait()
}

// signal wakes the thread if it waits. What it is to see was done under mu.
func (w *waker) signal() { w.cond.Signal() }
