package ensemble

import (
	"slices"
	"sync"
)

// limiter bounds how many requests to one step are in flight, over all
// requests to the ensemble. It never makes anyone wait: a run that gets no
// permit is told when there is one.
type limiter struct {
	mu      sync.Mutex
	free    int
	waiting []*run // in the order they came; a run stands here once per permit
}

// take takes a permit, or has x told of the next one.
func (l *limiter) take(x *run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free > 0 {
		l.free--
		return true
	}
	l.waiting = append(l.waiting, x)
	return false
}

// give gives a permit of a step back, to the run that waits longest.
func (l *limiter) give(step int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free++
		return
	}
	x := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	x.push(event{permit: true, at: start{step: step}})
}

// forget takes x out of the line.
func (l *limiter) forget(x *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w *run) bool { return w == x })
}
