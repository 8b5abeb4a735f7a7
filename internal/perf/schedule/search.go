package schedule

// Search says which load is measured next.
type Search interface {
	// Next returns the next load, given whether the one before kept the limit of
	// latency; more is false at the end. The first call's met is ignored.
	Next(met bool) (load float64, more bool)
}

type linear struct {
	at, end, step float64
	begun         bool
}

// Linear walks from start to end by step and stops at the first load that misses
// the limit. End 0 means until then.
func Linear(start, end, step float64) Search { return &linear{at: start, end: end, step: step} }

func (l *linear) Next(met bool) (float64, bool) {
	if !l.begun {
		l.begun = true
		return l.at, true
	}
	l.at += l.step
	return l.at, met && (l.end == 0 || l.at <= l.end)
}

type binary struct {
	low, high, step float64
	at              float64
	state           int // 0 before the start, 1 the start is measured, 2 the end is, 3 between them
}

// Binary measures start and end and, where only start keeps the limit, halves what
// lies between them until it is at most step wide.
func Binary(start, end, step float64) Search { return &binary{low: start, high: end, step: step} }

func (b *binary) Next(met bool) (float64, bool) {
	switch b.state {
	case 0:
		b.at = b.low
	case 1:
		if !met || b.high == b.low {
			return 0, false
		}
		b.at = b.high
	case 2:
		if met {
			return 0, false
		}
		return b.halve()
	default:
		if met {
			b.low = b.at
		} else {
			b.high = b.at
		}
		return b.halve()
	}
	b.state++
	return b.at, true
}

func (b *binary) halve() (float64, bool) {
	b.state = 3
	if b.high-b.low <= b.step {
		return 0, false
	}
	middle := (b.low + b.high) / 2
	if whole := float64(int64(middle)); b.step >= 1 && b.low == float64(int64(b.low)) {
		middle = whole
	}
	b.at = middle
	return middle, true
}

// Ramp lets load grow while requests stream: every period responses of one of the
// requests that joined last, step more join, until so many have been sent in all.
type Ramp struct{ start, end, step, period, sent, awaited int }

// NewRamp begins with start requests.
func NewRamp(start, end, step, period int) *Ramp {
	return &Ramp{start: start, end: end, step: step, period: period}
}

// Begin returns how many requests are sent at once.
func (r *Ramp) Begin() int {
	r.sent = min(r.start, r.end)
	r.awaited = r.sent
	return r.sent
}

// Response is told of the n-th response of the request with that number, counted
// from 0; it returns how many requests join now.
func (r *Ramp) Response(request, n int) int {
	// All that joined last must be so far; the count of those that are not is awaited.
	if request < r.sent-r.lastJoined() || n != r.period {
		return 0
	}
	if r.awaited--; r.awaited > 0 || r.sent >= r.end {
		return 0
	}
	joined := min(r.step, r.end-r.sent)
	r.sent += joined
	r.awaited = joined
	return joined
}

// Sent is how many requests have joined.
func (r *Ramp) Sent() int { return r.sent }

func (r *Ramp) lastJoined() int {
	if r.sent <= r.start {
		return r.sent
	}
	if rest := (r.sent - r.start) % r.step; rest != 0 {
		return rest
	}
	return r.step
}
