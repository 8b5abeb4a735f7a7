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
	// InReserve and OutReserve stand beside these for what is small, see reserve.go.
	InReserve
	OutReserve
	pages
)

// Reason is why a transfer was ended or refused.
type Reason uint8

// The reasons.
const (
	// Stalled: the transfer stood still while others needed its room.
	Stalled Reason = iota
	// Full: the page had no room.
	Full
	// Connection: others were to have what there was, the connection has enough.
	Connection
	// Key: likewise for all connections of a key, or its bound is reached.
	Key
	reasons
)

// PageNames and ReasonNames are what the metrics call them.
var (
	PageNames   = [pages]string{"inputs", "answers", "small_inputs", "small_answers"}
	ReasonNames = [reasons]string{"stalled", "full", "connection", "key"}
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
	cuts [pages][reasons]atomic.Uint64

	mu sync.Mutex
	// watched are the holds that are large enough to be worth cutting off.
	watched [pages]map[*Hold]struct{}

	// Option is what refusals call the setting of the limit; it may be
	// set before the ledger is used.
	Option string
}

// account is one page. Requests of all processors write to it: the padding
// keeps the pages apart.
type account struct {
	held  atomic.Int64
	look  atomic.Int64 // when transfers were looked at, ns of backend.Now; 0: never
	limit int64
	_     [40]byte
}

// New returns a ledger whose pages hold limit bytes each, answers at least 64 MiB,
// and a 64th of that more for what is small.
func New(limit int64) *Ledger {
	l := &Ledger{Option: "max-queued-bytes"}
	l.page[In].limit, l.page[Out].limit = limit, max(limit, leastOut)
	l.page[InReserve].limit, l.page[OutReserve].limit = reserveOf(l.page[In].limit), reserveOf(l.page[Out].limit)
	for p := range l.watched {
		l.watched[p] = map[*Hold]struct{}{}
	}
	return l
}

// Limit returns the bound of a page in bytes.
func (l *Ledger) Limit(p Page) int64 { return l.page[p].limit }

// Held returns what a page holds in bytes.
func (l *Ledger) Held(p Page) int64 { return l.page[p].held.Load() }

// Cuts returns how often a page had no room, by reason.
func (l *Ledger) Cuts(p Page, why Reason) uint64 { return l.cuts[p][why].Load() }

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

// allows reports whether a share, own of it in this transfer, may have n more.
func (l *Ledger) allows(p Page, s *Share, own, n int64) bool {
	held, a := s.held[p].Load()+s.held[p.reserve()].Load(), &l.page[p]
	if most := s.most.Load(); most > 0 && held > own && held+n > most {
		return false
	}
	return fair(a.held.Load(), a.limit, held, own, n)
}

// Refusal is the error for n bytes that the page had no room for. It counts the
// refusal.
func (l *Ledger) Refusal(p Page, n int64) *backend.Error { return l.RefusalFor(p, Full, n) }

// RefusalFor is Refusal with the reason that TakeWhole has given.
func (l *Ledger) RefusalFor(p Page, why Reason, n int64) *backend.Error {
	l.cuts[p][why].Add(1)
	if why == Key {
		return &backend.Error{Code: backend.ResourceExhausted, RetryAfter: retryAfter, Message: backend.Errorf(backend.ResourceExhausted,
			"an answer of %d bytes is more than the server can keep for one key beside others that its clients have not read", n).Message}
	}
	text := "%d bytes of input are more than the server can queue at present, its maximum is %d bytes (" + l.Option +
		")"
	if p == Out {
		text = "an answer of %d bytes is more than the server can keep beside others that clients have not read, its maximum is %d bytes (" +
			l.Option + ")"
	}
	return &backend.Error{
		Code: backend.Unavailable, RetryAfter: retryAfter,
		Message: backend.Errorf(backend.Unavailable, text, n, l.page[p].limit).Message,
	}
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
			l.cuts[p][Stalled].Add(1)
			over -= held
		}
	}
}
