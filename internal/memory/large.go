package memory

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// large keeps idle large buffers, last in first out per class, so that those
// at the bottom of a list are the ones that have been idle longest.
type large struct {
	limit, cache int64
	idle         time.Duration

	mu     sync.Mutex
	lists  [classes][]kept
	inUse  int64
	kept   int64
	timer  *time.Timer
	armed  bool
	closed bool
}

type kept struct {
	b     *tensor.Buffer
	since time.Time
}

func (l *large) init(o Options) {
	l.limit, l.cache, l.idle = o.Limit, o.Cache, o.Idle
	if l.cache == 0 {
		l.cache = 64 << 20
	}
	if l.idle == 0 {
		l.idle = 10 * time.Second
	}
}

// take counts one more buffer of class c and returns an idle one, or nil when
// the caller must make it.
func (l *large) take(c int) (*tensor.Buffer, error) {
	size := int64(classSize(c))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit > 0 && l.inUse+size > l.limit {
		return nil, &backend.Error{
			Code: backend.Unavailable, RetryAfter: time.Second,
			Message: "out of memory for tensors: the limit of the server is reached",
		}
	}
	l.inUse += size
	list := l.lists[c]
	if len(list) == 0 {
		return nil, nil
	}
	b := list[len(list)-1].b
	list[len(list)-1] = kept{}
	l.lists[c] = list[:len(list)-1]
	l.kept -= size
	return b, nil
}

// whole returns all bytes of a buffer's class.
func whole(b *tensor.Buffer) []byte {
	data := b.Bytes()
	return data[:cap(data)]
}

// put keeps b if there is room, else lets go of its memory.
func (l *large) put(c int, b *tensor.Buffer) {
	if !l.keep(c, b) {
		drop(whole(b)) // not under the lock: the system takes its time for gigabytes
	}
}

func (l *large) keep(c int, b *tensor.Buffer) bool {
	size := int64(classSize(c))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse -= size
	if l.closed || l.kept+size > l.cache {
		return false
	}
	l.kept += size
	l.lists[c] = append(l.lists[c], kept{b, time.Now()})
	if !l.armed {
		l.armed = true
		if l.timer == nil {
			l.timer = time.AfterFunc(l.idle, l.tick)
		} else {
			l.timer.Reset(l.idle)
		}
	}
	return true
}

// tick drops what has been idle long enough and runs again while there is more.
func (l *large) tick() {
	l.trim(l.idle)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = l.kept > 0 && !l.closed
	if l.armed {
		l.timer.Reset(l.idle)
	}
}

// trim drops buffers that have been idle for at least age.
func (l *large) trim(age time.Duration) {
	for _, b := range l.idleFor(age) {
		drop(whole(b))
	}
}

// idleFor takes out what has been idle for so long.
func (l *large) idleFor(age time.Duration) (idle []*tensor.Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == 0 {
		return nil
	}
	before := time.Now().Add(-age)
	for c, list := range l.lists {
		n := 0
		for n < len(list) && !list[n].since.After(before) {
			n++
		}
		if n == 0 {
			continue
		}
		l.kept -= int64(n) * int64(classSize(c))
		for _, k := range list[:n] {
			idle = append(idle, k.b)
		}
		rest := copy(list, list[n:])
		clear(list[rest:])
		l.lists[c] = list[:rest]
	}
	return idle
}

func (l *large) close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.trim(0)
}

func (l *large) usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Usage{InUse: l.inUse, Idle: l.kept}
}
