package step

import "math/bits"

// Room is how much the cache of keys and values has room for: so many texts of so many tokens.
type Room struct{ Rows, Length int }

// Tokens is how many tokens that are.
func (r Room) Tokens() int64 { return int64(r.Rows) * int64(r.Length) }

const (
	// lengthStep is what lengths are multiples of, so that texts of nearly one length need no
	// other cache.
	lengthStep = 64
	// wasteful is by how many times a cache may be longer than it is needed before it is made anew
	// for the next text.
	wasteful = 4
)

// Fit says which room the cache is to have for what is needed, which is no more than limit tokens
// and most texts: the one that it has, if that does, else one that some more texts fit in.
func (r Room) Fit(need Room, limit int64, most int) Room {
	if r.Rows >= need.Rows && r.Length >= need.Length && r.Length < wasteful*(need.Length+lengthStep) {
		return r
	}
	next := Room{need.Rows, (need.Length + lengthStep - 1) / lengthStep * lengthStep}
	if next.Tokens() > limit {
		next.Length = need.Length
	}
	if more := min(1<<bits.Len(uint(need.Rows-1)), most); int64(more)*int64(next.Length) <= limit {
		next.Rows = max(next.Rows, more)
	}
	return next
}
