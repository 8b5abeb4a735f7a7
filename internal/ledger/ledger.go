package ledger

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Page is a side of the ledger.
type Page uint8

// The pages.
const (
	// In has what clients have sent: bytes that have come, what they were inflated
	// or decoded to, inputs of requests.
	In Page = iota
	// Out has answers that have not been written.
	Out
	pages
)

const (
	// leastOut is what answers may hold in any case: a small bound of inputs says
	// nothing about the size of answers.
	leastOut = 64 << 20
	// grace is how long a transfer may stand still when others need its room.
	grace = 500 * time.Millisecond
	// lookEvery is how often, at most, the transfers of a full page are looked at.
	lookEvery = 20 * time.Millisecond
	// retryAfter is what a client is told to wait when a page is full.
	retryAfter = time.Second
)

// Ledger counts the bytes that the server holds. It starts nothing: who asks for
// room makes it, if he must. All methods are safe for concurrent use.
type Ledger struct {
	page [pages]account
	cuts atomic.Uint64

	mu sync.Mutex
	// watched are the holds that are large enough to be worth cutting off.
	watched [pages]map[*Hold]struct{}
}

// account is one page. Requests of all processors write to it: the padding
// keeps the pages apart.
type account struct {
	held  atomic.Int64
	look  atomic.Int64 // when transfers were looked at, ns of backend.Now; 0: never
	limit int64
	_     [40]byte
}

// New returns a ledger whose pages hold limit bytes each, answers at least 64 MiB.
func New(limit int64) *Ledger {
	l := &Ledger{}
	l.page[In].limit, l.page[Out].limit = limit, max(limit, leastOut)
	for p := range l.watched {
		l.watched[p] = map[*Hold]struct{}{}
	}
	return l
}

// Limit returns the bound of a page in bytes.
func (l *Ledger) Limit(p Page) int64 { return l.page[p].limit }

// Held returns what a page holds in bytes.
func (l *Ledger) Held(p Page) int64 { return l.page[p].held.Load() }

// Cuts returns how many transfers have been cut off for their room.
func (l *Ledger) Cuts() uint64 { return l.cuts.Load() }

// Take counts n bytes, which Give gives back; all of them or, where they would
// be more than the page's bound, none. An answer that is alone on its page always
// fits: nobody knew its size before.
func (l *Ledger) Take(p Page, n int64) bool {
	a := &l.page[p]
	now := a.held.Add(n)
	if full := a.limit - a.limit/8; now > full || now < 0 {
		if now > a.limit && (p != Out || now != n) || now < 0 {
			a.held.Add(-n)
			l.relieve(p, n)
			return false
		}
		l.relieve(p, 0)
	}
	return true
}

// Give gives back n bytes.
func (l *Ledger) Give(p Page, n int64) {
	if n != 0 {
		l.page[p].held.Add(-n)
	}
}

// Fits reports whether the page has room for n bytes at present. It takes
// nothing: it is for a declared length, which may be refused before anything of
// it has come, but gives no right to room.
func (l *Ledger) Fits(p Page, n int64) bool {
	a := &l.page[p]
	if n > a.limit-a.held.Load() {
		l.relieve(p, 0) // what is only declared pushes nobody out
		return false
	}
	return true
}

// Refusal is the error for n bytes for which there was no room.
func (l *Ledger) Refusal(p Page, n int64) *backend.Error {
	text := "%d bytes of input are more than the server can queue at present, its maximum is %d bytes (--max-queued-bytes)"
	if p == Out {
		text = "an answer of %d bytes is more than the server can keep beside others that clients have not read, its maximum is %d bytes (--max-queued-bytes)"
	}
	return &backend.Error{Code: backend.Unavailable, RetryAfter: retryAfter, Message: backend.Errorf(backend.Unavailable, text, n, l.page[p].limit).Message}
}

// relieve cuts off transfers that stand still, the one that does so for longest
// first, until the page is below seven eighths with n bytes more.
func (l *Ledger) relieve(p Page, n int64) {
	a := &l.page[p]
	now := backend.Now()
	if at := a.look.Load(); at != 0 && now-at < int64(lookEvery) || !a.look.CompareAndSwap(at, now) {
		return
	}
	over := a.held.Load() + n - (a.limit - a.limit/8)
	type standing struct {
		h     *Hold
		since int64
	}
	var still []standing
	l.mu.Lock()
	for h := range l.watched[p] {
		switch since := h.mark.Load(); {
		case h.off.Load():
			over -= h.held.Load() // it is about to be given back
		case now-since >= int64(grace):
			still = append(still, standing{h, since})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(still, func(a, b standing) int { return cmp.Compare(a.since, b.since) })
	for _, s := range still {
		if over <= 0 {
			return
		}
		held := s.h.held.Load()
		if s.h.cutOff(s.since) {
			l.cuts.Add(1)
			over -= held
		}
	}
}
