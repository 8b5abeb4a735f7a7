package ledger

const (
	// Small is up to which size in all, in bytes, a request, message or answer is
	// small, and may have its place in the reserve.
	Small = 16 << 10
	// reserveShare is the part of a page that stands in reserve beside it, at least
	// leastReserve bytes.
	reserveShare = 64
	leastReserve = 128 << 10
	// leastPage is the smallest page, in bytes, that has a reserve: in a smaller one
	// nothing is small.
	leastPage = 1 << 20
	// connReserve and keyReserve are the parts of a reserve that one connection, and
	// one key over all its connections, may have. One small thing they always may.
	connReserve = 16
	keyReserve  = 4
)

// Asker is who asks for room: the shares of the connection and of the key, nil
// where there is none.
type Asker struct{ Conn, Key *Share }

// reserveOf returns how large the reserve of a page is.
func reserveOf(limit int64) int64 {
	if limit < leastPage {
		return 0
	}
	return max(limit/reserveShare, leastReserve)
}

// reserve returns the page that is p's reserve.
func (p Page) reserve() Page {
	if p == In {
		return InReserve
	}
	return OutReserve
}

// main returns the page that p is, or is the reserve of.
func (p Page) main() Page {
	if p.IsReserve() {
		return p - InReserve
	}
	return p
}

// IsReserve reports whether p is the reserve of another page.
func (p Page) IsReserve() bool { return p >= InReserve }

// TakeWhole counts n bytes that are all of something: of a request, a message or
// an answer. They stand on p or, when that has no room and they are Small, on its
// reserve; GiveWhole wants to be told which. Without room nothing has changed.
//
// A connection counts on reserves only, and so does a key on In; on Out the key
// has its share of the page, too.
func (l *Ledger) TakeWhole(p Page, by Asker, n int64) (on Page, why Reason, ok bool) {
	if p == Out && by.Key != nil && !l.allows(p, by.Key, 0, n) {
		return p, Key, false
	}
	if l.Take(p, n) {
		if p == Out && by.Key != nil {
			by.Key.held[p].Add(n)
		}
		return p, 0, true
	}
	if n <= Small && l.takeReserve(p.reserve(), by, n) {
		return p.reserve(), 0, true
	}
	return p, Full, false
}

// GiveWhole gives back n bytes that TakeWhole has counted on a page.
func (l *Ledger) GiveWhole(on Page, by Asker, n int64) {
	l.Give(on, n)
	if by.Conn != nil && on.IsReserve() {
		by.Conn.held[on].Add(-n)
	}
	if by.Key != nil && on != In {
		by.Key.held[on].Add(-n)
	}
}

// Extend counts n bytes more of something that TakeWhole has counted held bytes
// of, and returns the page on which all of it stands then. What was small and is
// no longer has to find its place on p as others do.
func (l *Ledger) Extend(p, on Page, by Asker, held, n int64) (Page, bool) {
	if !on.IsReserve() {
		if l.Take(p, n) {
			return p, true
		}
		if held+n > Small || !l.takeReserve(p.reserve(), by, held+n) {
			return p, false
		}
		l.GiveWhole(p, by, held)
		return p.reserve(), true
	}
	if held+n <= Small {
		return on, l.takeReserve(on, by, n)
	}
	if !l.Take(p, held+n) {
		return on, false
	}
	l.GiveWhole(on, by, held)
	return p, true
}

// takeReserve counts n bytes on a reserve, unless it, or the part of it that who
// asks may have, is full.
func (l *Ledger) takeReserve(r Page, by Asker, n int64) bool {
	a := &l.page[r]
	if by.Conn != nil && !by.Conn.take(r, n, a.limit/connReserve) {
		return false
	}
	if by.Key != nil && !by.Key.take(r, n, a.limit/keyReserve) {
		if by.Conn != nil {
			by.Conn.held[r].Add(-n)
		}
		return false
	}
	if now := a.held.Add(n); now <= a.limit {
		return true
	}
	l.GiveWhole(r, by, n)
	l.relieve(r, n)
	return false
}

// take counts n bytes on the share if they are no more than most, or alone.
func (s *Share) take(p Page, n, most int64) bool {
	if now := s.held[p].Add(n); now > most && now > n {
		s.held[p].Add(-n)
		return false
	}
	return true
}
