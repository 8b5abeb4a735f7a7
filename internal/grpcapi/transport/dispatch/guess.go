package dispatch

import "time"

const (
	// LongCall is from when on a call may have kept others waiting: whether the client
	// has sent more meanwhile is worth a look.
	LongCall = 50 * time.Microsecond
	// veryLongCall is from when on it has been a mistake to let the reader serve it.
	veryLongCall = time.Millisecond
	// mostAvoided bounds for how many calls a very long one counts.
	mostAvoided = 1 << 16

	signWorth = 3  // of one sign; each call takes one off
	enough    = 7  // signs, from which on other goroutines serve
	handOver  = 64 // for so many calls
)

// Guess is what is known of one connection. The zero value knows nothing. It
// belongs to whoever reads the connection.
type Guess struct {
	signs   int    // that several callers share the connection
	avoided int    // for how many calls the last very long one counted
	turn    uint64 // of the last call that the reader served
}

// Next decides on the next call. company says that another one is open, or that
// more of them has come. It returns the number of the reader's turn, which is
// never the same again, or 0 for another goroutine.
func (g *Guess) Next(company bool) (turn uint64) {
	g.signs = max(0, g.signs-1)
	if company {
		g.sign()
	}
	if company || g.signs >= enough {
		return 0
	}
	g.turn++
	return g.turn
}

// Ended notes how long a call on the reader has taken, and whether more has come
// meanwhile.
func (g *Guess) Ended(took time.Duration, company bool) {
	switch {
	case took >= veryLongCall:
		g.Avoid()
	case company:
		g.sign()
	}
}

// Avoid hands the next calls to other goroutines, after one that took very long:
// twice as many each time.
func (g *Guess) Avoid() {
	g.avoided = min(max(handOver, 2*g.avoided), mostAvoided)
	g.signs = g.avoided
}

// Turn is the number of the last turn.
func (g *Guess) Turn() uint64 { return g.turn }

func (g *Guess) sign() {
	if g.signs += signWorth; g.signs >= enough {
		g.signs = handOver
	}
}
