package ledger

import (
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
)

// Share is what the transfers of one connection, or the answers of one key, hold
// together. The zero value is ready; it is safe for concurrent use.
type Share struct {
	held [pages]atomic.Int64
	most atomic.Int64
}

// Bound says how many bytes the share may hold of a page, beside one transfer
// that is alone; 0 is without a bound of its own.
func (s *Share) Bound(most int64) { s.most.Store(most) }

// Held returns what the connection's transfers hold in bytes.
func (s *Share) Held(p Page) int64 { return s.held[p].Load() }

const (
	// watchFrom is from which size on a hold may be cut off: smaller ones are not
	// worth the look, and need no lock.
	watchFrom = 16 << 10
	// leastMove is what a transfer has to move, at least, to count as moving.
	leastMove = 16 << 10
	// moveShare is the part of what it holds that a transfer has to move each time:
	// who holds much has to be quick while others wait.
	moveShare = 64
)

// Hold is what one transfer holds: a body or message on its way in, or an answer
// on its way out. The zero value is closed. Open, Take, Give, Moved, Keep and
// Close are called by one goroutine at a time. It may be opened again once it is closed.
//
// A body:   Open(l, In, ..); Take(n) for each n bytes that have come, which tells
// whether they may stay; Keep or Close when the last one has come.
//
// An answer: Open(l, Out, ..), Take(size); Give(n) for each n bytes that the
// kernel has taken; Close.
//
// Where a request counts the bytes already, Stand and Moved take the place of Take
// and Give; a hold does either.
type Hold struct {
	l     *Ledger
	page  Page
	share *Share
	key   *Share
	why   Reason // of the last Take that has failed
	held  atomic.Int64
	mark  atomic.Int64 // when it moved last, ns of backend.Now
	moved int64        // since then

	open    bool
	watched bool
	counted bool // held is on the page, and not somebody else's
	small   bool // see Whole

	off atomic.Bool // the ledger has cut it off
	mu  sync.Mutex  // orders cut and its end
	cut func()
}

// Open begins a transfer. share may be nil. cut ends it for want of room: it is
// called at most once, on another goroutine and never after Keep or Close has
// returned, which wait for it. So it must not block, call the hold, or take a
// lock that is held when Keep or Close is called; setting a deadline of a
// connection, or starting a goroutine, is what it is for. What the hold has stays
// counted until Close.
func (h *Hold) Open(l *Ledger, p Page, share *Share, cut func()) {
	h.l, h.page, h.share, h.key, h.moved, h.watched, h.counted, h.small = l, p, share, nil, 0, false, false, false
	h.open = true
	h.held.Store(0)
	h.mark.Store(backend.Now())
	h.mu.Lock()
	h.cut = cut
	h.off.Store(false)
	h.mu.Unlock()
}

// For says, after Open, whose key the answer is for; nil is nobody's.
func (h *Hold) For(key *Share) { h.key = key }

// Whole says, after Open, that the transfer will hold so many bytes in all: one
// that is Small may have its place in the reserve.
func (h *Hold) Whole(n int64) { h.small = n <= Small }

// Page returns where the bytes stand.
func (h *Hold) Page() Page { return h.page }

// Take counts n bytes more, or says that there is no room for them; then nothing
// has changed.
func (h *Hold) Take(n int64) bool {
	h.why = Full
	if h.page.IsReserve() || !h.take(n) {
		if !h.small || h.why == Key || !h.takeReserve(n) {
			return false
		}
	}
	h.counted = true
	h.grow(n)
	return true
}

// takeReserve counts n bytes more on the reserve, with those that stand on the
// page already.
func (h *Hold) takeReserve(n int64) bool {
	on, by, held := h.page, Asker{h.share, h.key}, h.held.Load()
	if on.IsReserve() {
		return held+n <= Small && h.l.takeReserve(on, by, n)
	}
	if held+n > Small || !h.l.takeReserve(on.reserve(), by, held+n) {
		return false
	}
	h.l.Give(on, held)
	h.add(-held)
	h.unwatch()
	h.page = on.reserve()
	return true
}

// take counts n bytes more on the page.
func (h *Hold) take(n int64) bool {
	if s := h.share; s != nil && !h.l.allows(h.page, s, h.held.Load(), n) {
		h.why = Connection
		h.l.relieve(h.page, n)
		return false
	}
	// What a key has too much of is not made good by others.
	if s := h.key; s != nil && !h.l.allows(h.page, s, h.held.Load(), n) {
		h.why = Key
		return false
	}
	if !h.l.Take(h.page, n) {
		return false
	}
	h.add(n)
	return true
}

// Adopt takes n bytes over that TakeWhole has counted on a page for by. They are
// size bytes from here on, whatever the page holds: who had them has its place.
// What stands in a reserve stays what it is.
func (h *Hold) Adopt(on Page, by Asker, n, size int64) {
	if h.page = on; on.IsReserve() {
		size = n
	}
	h.l.GiveWhole(on, by, n)
	h.l.page[on].held.Add(size)
	h.add(size)
	h.counted = true
	h.grow(size)
}

// add counts n bytes on the shares.
func (h *Hold) add(n int64) {
	if h.share != nil {
		h.share.held[h.page].Add(n)
	}
	if h.key != nil {
		h.key.held[h.page].Add(n)
	}
}

// fair reports whether a connection that has share bytes, own of them in this
// transfer, may have n more. The first transfer of a connection may have all
// there is. With several it is not to have the last quarter of the page beside a
// quarter of its own: others must get in.
func fair(held, limit, share, own, n int64) bool {
	return share <= own || share+n <= limit/4 || held+n <= limit-limit/4
}

// Give gives back n bytes of those that Take counted, which have moved.
func (h *Hold) Give(n int64) {
	back := min(n, h.held.Load()) // what was adopted may be less than what moves
	h.l.Give(h.page, back)
	h.add(-back)
	h.held.Add(-back)
	h.Moved(n)
}

// Stand says that the transfer has n bytes of room which somebody else counts, a
// request for instance: it is watched for them, and gives none of them back.
func (h *Hold) Stand(n int64) { h.grow(n) }

func (h *Hold) grow(n int64) {
	// In a reserve they are few, and each may be in the way.
	if now := h.held.Add(n); (now >= watchFrom || h.page.IsReserve()) && !h.watched {
		h.watched = true
		h.l.mu.Lock()
		h.l.watched[h.page][h] = struct{}{}
		h.l.mu.Unlock()
	}
	h.Moved(n)
}

// Moved says that n bytes have come or gone.
func (h *Hold) Moved(n int64) {
	if h.moved += n; h.moved >= max(leastMove, h.held.Load()/moveShare) {
		h.moved = 0
		h.mark.Store(backend.Now())
	}
}

// Keep ends the transfer, but not what it holds: the caller has to give the
// returned number of bytes back to Page of the ledger, with GiveWhole.
func (h *Hold) Keep() int64 {
	if !h.open {
		return 0
	}
	n := h.leave()
	if !h.counted {
		return 0
	}
	if !h.page.IsReserve() { // where who asked is bounded in what he keeps
		h.add(-n)
	}
	return n
}

// Close ends the transfer and gives back what it holds. It may be called again.
func (h *Hold) Close() {
	if !h.open {
		return
	}
	if n := h.leave(); h.counted {
		h.add(-n)
		h.l.Give(h.page, n)
	}
}

// leave ends the transfer and returns what it held.
func (h *Hold) leave() int64 {
	h.open = false
	h.unwatch()
	h.mu.Lock()
	h.cut = nil
	h.mu.Unlock()
	return h.held.Swap(0)
}

func (h *Hold) unwatch() {
	if h.watched {
		h.watched = false
		h.l.mu.Lock()
		delete(h.l.watched[h.page], h)
		h.l.mu.Unlock()
	}
}

// Opened reports whether the transfer has begun and not ended.
func (h *Hold) Opened() bool { return h.open }

// Off reports whether the ledger has cut the transfer off.
func (h *Hold) Off() bool { return h.off.Load() }

// Ledger returns the ledger that it was opened with.
func (h *Hold) Ledger() *Ledger { return h.l }

// Refusal is the error for n bytes that Take has refused. It counts the refusal.
func (h *Hold) Refusal(n int64) *backend.Error { return h.l.RefusalFor(h.page.main(), h.why, n) }

// cutOff ends the transfer for want of room. It reports false for one that has
// ended, or has moved since; the hold may be another transfer's by now.
func (h *Hold) cutOff(since int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut == nil || h.mark.Load() != since || h.off.Swap(true) {
		return false
	}
	h.cut()
	return true
}
