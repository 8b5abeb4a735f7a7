package objective

import "math"

// rate is how many requests come, as sizes in a nanosecond. What came one span ago
// counts a third.
type rate struct {
	span  float64 // ns
	count float64
	last  int64
}

func (r *rate) add(now int64, size int) {
	r.fade(now)
	r.count += float64(size)
}

func (r *rate) fade(now int64) {
	if now > r.last {
		r.count *= math.Exp(-float64(now-r.last) / r.span)
		r.last = now
	}
}

func (r *rate) at(now int64) float64 {
	r.fade(now)
	return r.count / r.span
}
