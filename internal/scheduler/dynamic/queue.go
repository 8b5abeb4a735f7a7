package dynamic

import (
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
)

// entry is one request in the queue.
type entry struct {
	request  *infer.Request
	size     int
	level    int
	queued   int64 // when it entered
	deadline int64 // when its time in the queue is up; 0 for never

	next, prev *entry
	list       *list  // where it stands, nil once it has left
	heap       int    // inOrder in the heap of deadlines, -1 for none
	number     uint64 // in order of arrival, decides between equal deadlines

	own scheduler.Waiting // the loop's
}

// list is a FIFO from which entries may leave anywhere.
type list struct {
	head, tail *entry
	len        int
}

func (l *list) push(e *entry) { l.before(nil, e) }

// insert puts an entry back where it stood by its number.
func (l *list) insert(e *entry) {
	next := l.head
	for next != nil && next.number < e.number {
		next = next.next
	}
	l.before(next, e)
}

// before puts an entry before another one, nil for the end.
func (l *list) before(next, e *entry) {
	prev := l.tail
	if next != nil {
		prev = next.prev
	}
	e.list, e.prev, e.next = l, prev, next
	if prev == nil {
		l.head = e
	} else {
		prev.next = e
	}
	if next == nil {
		l.tail = e
	} else {
		next.prev = e
	}
	l.len++
}

func (l *list) remove(e *entry) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.next, e.prev, e.list = nil, nil, nil
	l.len--
}

// level is one priority: what is fresh, and behind it what has timed out under
// the DELAY policy.
type level struct {
	policy         modelconfig.QueuePolicy
	fresh, delayed list
}

// queue is all levels, the most urgent first.
type queue struct {
	levels    []level
	deadlines deadlines
	len       int
	waiting   int // the entries' sizes
}

// push adds an entry, unless its level is full.
func (q *queue) push(e *entry) bool {
	l := &q.levels[e.level]
	if n := l.policy.MaxQueueSize; n > 0 && l.fresh.len+l.delayed.len >= n {
		return false
	}
	l.fresh.push(e)
	q.len++
	q.waiting += e.size
	if e.deadline != 0 {
		q.deadlines.push(e)
	}
	return true
}

// putBack adds an entry that had left, in its old place. Its level may be full.
func (q *queue) putBack(e *entry) {
	q.levels[e.level].fresh.insert(e)
	q.len++
	q.waiting += e.size
	if e.deadline != 0 {
		q.deadlines.push(e)
	}
}

func (q *queue) remove(e *entry) {
	e.list.remove(e)
	q.len--
	q.waiting -= e.size
	if e.heap >= 0 {
		q.deadlines.remove(e)
	}
}

// first returns the entry that is to run next.
func (q *queue) first() *entry { return q.from(0) }

func (q *queue) from(i int) *entry {
	for ; i < len(q.levels); i++ {
		l := &q.levels[i]
		if l.fresh.head != nil {
			return l.fresh.head
		}
		if l.delayed.head != nil {
			return l.delayed.head
		}
	}
	return nil
}

// after returns the entry to run after e.
func (q *queue) after(e *entry) *entry {
	if e.next != nil {
		return e.next
	}
	l := &q.levels[e.level]
	if e.list == &l.fresh && l.delayed.head != nil {
		return l.delayed.head
	}
	return q.from(e.level + 1)
}

// deadlines is a binary heap, the nearest on top, in which each entry knows its
// place.
type deadlines []*entry

func (h *deadlines) push(e *entry) {
	*h = append(*h, e)
	e.heap = len(*h) - 1
	h.up(e.heap)
}

func (h *deadlines) remove(e *entry) {
	i, last := e.heap, len(*h)-1
	e.heap = -1
	moved := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if i == last {
		return
	}
	(*h)[i], moved.heap = moved, i
	h.up(i)
	h.down(moved.heap)
}

func (h deadlines) up(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h deadlines) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if h.less(i, c) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h deadlines) less(i, j int) bool {
	if h[i].deadline != h[j].deadline {
		return h[i].deadline < h[j].deadline
	}
	return h[i].number < h[j].number
}

func (h deadlines) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}
