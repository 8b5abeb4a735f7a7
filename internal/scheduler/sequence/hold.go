package sequence

// Tests of clients and of the peer want to see which batches are formed of
// requests that are all there: with TRITONSERVER_DELAY_SCHEDULER the first batch
// waits for them.

// holdFor makes the first batch wait for requests in slots and in the backlog.
// With the oldest strategy each instance waits for its own, since each has a
// batcher of its own.
func (b *batcher) holdFor(queued, backlog int) {
	if b.direct {
		b.hold, b.holdBacklog = queued, backlog
		return
	}
	for _, l := range b.instances {
		l.hold = queued
	}
}

// endHold ends the wait of an instance for its first batch where what it waits for
// is there. It reports whether there is nothing to wait for.
func (b *batcher) endHold(l *instance) bool {
	if b.direct {
		if b.hold > 0 && b.inSlots() >= b.hold && b.waiting >= b.holdBacklog {
			b.hold = 0
		}
		return b.hold <= 0
	}
	if l.hold > 0 {
		n := 0
		for t := l.ready.head; t != nil; t = t.next {
			n++
		}
		if n >= l.hold {
			l.hold = 0
		}
	}
	return l.hold <= 0
}

// inSlots counts the queued requests of sequences that have a slot.
func (b *batcher) inSlots() int {
	n := 0
	for _, l := range b.instances {
		for _, t := range l.slots {
			if t.seq != nil {
				n += t.seq.len
			}
		}
	}
	return n
}
