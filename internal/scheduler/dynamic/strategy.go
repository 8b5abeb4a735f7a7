package dynamic

// A model may have a batching strategy of its own, which says of each request
// whether it joins those before it in a batch (backend.BatchFormer). It is elsewhere,
// in another process, so the batcher never waits for it: it puts a question about the
// first entries of the queue, goes on, and gets the answer as an event. Meanwhile
// entries may come, leave and move.
//
// An answer is about a list of entries in their order: so many of them, from the first
// on, form one batch. That an entry joins depends on those before it alone, so the
// answer holds for as much of the queue as begins with the same entries. What stands
// behind that is unknown: form asks again, about all of the next batch, since the
// strategy keeps nothing from one question to the next. Once a batch has to go it goes
// as far as it is known, as if the rest had come later.
//
// The strategy only ever makes batches smaller than the rules of form do, and the first
// entry is never refused: whatever is answered, each question that an idle instance
// waits for is followed by a batch.
type strategy struct {
	on       bool
	asking   bool     // a question is on its way
	due      []*entry // a question to put: its entries, until the lock is let go of
	question []uint64 // the numbers of the entries of the last question
	known    []uint64 // and of the last one that was answered
	joined   int      // how many of these form one batch
	fresh    bool     // the answer has just come
	unsure   bool     // a batch would go if the answer were there
}

// saying is what is known of an entry in a batch.
type saying uint8

const (
	joins saying = iota
	refuses
	silent
)

// says returns what the strategy has said of the entry that stands k-th, after k that
// join.
func (s *strategy) says(k int, e *entry) saying {
	switch {
	case !s.on:
		return joins
	case k >= len(s.known) || s.known[k] != e.number:
		return silent
	case k >= s.joined:
		return refuses
	}
	return joins
}

// goesOn reports whether the part of a batch that is known goes without the rest. With
// a delay there is time to ask; else whoever came after the question came too late. A
// batch that is to get its turn from the rate limiter keeps what it has.
func (b *batcher) goesOn(known formed, late bool) bool {
	return known.count > 0 && (late || b.delay == 0 && (b.fresh || b.limited))
}

// strategize has the model say which requests come into a batch. What the batcher has
// found out about the times of batches has no part in that.
func (b *batcher) strategize() { b.on, b.patient, b.prefetch = true, false, false }

// ask puts a question about the next batch, unless one is on its way.
func (b *batcher) ask() {
	b.unsure = true
	if b.asking {
		return
	}
	b.asking = true
	b.question, b.due = b.question[:0], b.due[:0]
	first, size := b.first(), 0
	for e := first; e != nil; e = b.after(e) {
		if size += e.size; len(b.due) > 0 && (size > b.max || !b.same.Same(first.request, e.request)) {
			break
		}
		b.question, b.due = append(b.question, e.number), append(b.due, e)
	}
}

// answered takes the answer to the question: how many of its entries form one batch. A
// step follows.
func (b *batcher) answered(joined int) {
	b.asking, b.fresh = false, true
	b.known, b.question = b.question, b.known
	b.joined = max(1, min(joined, len(b.known)))
}
