package objective

import (
	"sort"
	"time"
)

const (
	// accepted is the share of requests that may be late: the objective is for the
	// 99th percentile.
	accepted = 0.01
	// A part of the time is left unused, for what is not foreseen: at first a tenth.
	// Batches with late requests add to that part, those without take from it.
	firstUse, leastUse, mostUse = 0.9, 0.5, 0.98
	correction                  = 0.1
	// stall is how many times as long as foreseen a batch takes that has been held up, by
	// what has nothing to do with its size.
	stall = 1.5
	// growth is how much larger than all before a batch may be: what is not known is
	// found out by degrees.
	growth = 2
	// rates are over rateSpans times the objective, at least shortSpan.
	rateSpans = 2
	shortSpan = 20 * time.Millisecond
	// A batch waits for more requests if that has them served so much faster, and there
	// is not much time to spare.
	gain, pressed = 1.05, 0.8
	// worth is the part of the batch that could go without its oldest request that has to
	// go with it: else that one is better not answered.
	worth = 0.6
)

// Goal is a latency objective and what is known about keeping it.
type Goal struct {
	limit  int64 // ns
	max    int   // size of a batch
	costs  costs
	rate   rate
	use    float64 // of the limit
	target int     // the size for which there is time, at the present rate
	// stalled says that the last batch took much longer than foreseen.
	stalled bool

	answered, late, refused, dropped uint64
}

// New returns a goal: requests are answered within limit, by batches up to a size.
func New(limit time.Duration, size int) *Goal {
	return &Goal{
		limit: int64(limit), max: size, use: firstUse, target: 1,
		rate: rate{span: float64(max(rateSpans*limit, shortSpan))},
	}
}

// Limit is the objective, in ns.
func (g *Goal) Limit() int64 { return g.limit }

// room is how long a request may take, in ns.
func (g *Goal) room() int64 { return int64(g.use * float64(g.limit)) }

// Line is what stands before a request.
type Line struct {
	Free      int64 // when an instance is free, as far as known; now or earlier: one is
	Waiting   int   // sizes of those that wait
	Instances int   // how many serve them
	Idle      bool  // nothing waits or runs
}

// Admit says whether a request that has come can be answered in time behind those of
// the line, and if not, in how long one could. Each request is told of, once.
//
// One that finds nothing running is always taken: if it is too late it says what a
// batch costs now.
func (g *Goal) Admit(now int64, size int, line Line) (retry time.Duration, ok bool) {
	g.rate.add(now, size)
	if line.Idle || g.costs.batches == 0 {
		return 0, true
	}
	if late := g.end(now, size, line) - now - g.room(); late > 0 {
		g.refused++
		return time.Duration(late), false
	}
	return 0, true
}

// end foresees when the request will be answered: behind full batches of those before
// it, in one that is as large as it will have become when it goes.
func (g *Goal) end(now int64, size int, line Line) int64 {
	start := max(now, line.Free)
	full := line.Waiting / g.target
	start += int64(full) * g.costs.of(g.target) / int64(max(1, line.Instances))
	coming := g.rate.at(now) * float64(start-now)
	batch := min(g.target, line.Waiting%g.target+size+int(min(coming, float64(g.target))))
	return start + g.costs.of(max(size, batch))
}

// Most returns the largest size of a batch whose oldest request has waited since queued:
// 0 if even alone it would be too late, or if it is better not answered, since that
// would hold up many of those that wait behind it. Waiting is the size of all that wait,
// the oldest one's is size.
func (g *Goal) Most(now, queued int64, size, waiting int) int {
	g.aim(now)
	if g.costs.batches == 0 {
		return size
	}
	left := queued + g.limit - now
	if g.costs.of(size) > left {
		return 0
	}
	most := g.largest(func(n int) bool { return n <= size || g.costs.of(n) <= left })
	if float64(most) < worth*float64(min(g.target, waiting)) {
		return 0
	}
	return max(size, most)
}

// aim sets the target: the largest size that comes, and is then executed, within the
// time of a request.
func (g *Goal) aim(now int64) {
	r, room := g.rate.at(now), float64(g.room())
	g.target = max(1, g.largest(func(n int) bool { return float64(n)/r+float64(g.costs.of(n)) <= room }))
}

// largest returns the largest size for which fits says so, 0 for none.
func (g *Goal) largest(fits func(size int) bool) int {
	n := min(g.max, max(1, growth*g.costs.tried))
	return sort.Search(n, func(i int) bool { return !fits(i + 1) })
}

// Wait returns until when a batch of such a size, which is all that waits, is better
// left to grow; 0 for not at all. Its oldest request has waited since queued.
func (g *Goal) Wait(now, queued int64, size int) int64 {
	if g.costs.batches == 0 || size >= g.target {
		return 0
	}
	r := g.rate.at(now)
	cost := float64(g.costs.of(size))
	if r*cost < pressed*float64(size) {
		return 0 // there is time to serve all in batches of this size
	}
	more := min(2*size, g.target)
	wait := float64(more-size) / r
	longer := wait + float64(g.costs.of(more))
	if float64(more)/longer < gain*float64(size)/cost || float64(now-queued)+longer > float64(g.room()) {
		return 0
	}
	return now + max(1, int64(wait))
}

// Done says that a batch took so long, and how many of its answers were late.
func (g *Goal) Done(size int, took int64, answered, late int) {
	g.answered += uint64(answered)
	g.late += uint64(late)
	foreseen := g.costs.of(size)
	first := !g.stalled
	if g.stalled = foreseen > 0 && float64(took) > stall*float64(foreseen); g.stalled && first {
		return // one alone says nothing of the next ones; two do
	}
	g.costs.learn(size, took)
	if answered == 0 {
		return
	}
	g.use += correction * (accepted - float64(late)/float64(answered))
	g.use = min(mostUse, max(leastUse, g.use))
}

// Dropped says that a request that waited will not be answered in time.
func (g *Goal) Dropped() { g.dropped++ }

// Cost returns how long a batch of a size takes, as far as known, in ns.
func (g *Goal) Cost(size int) int64 { return g.costs.of(size) }

// Cost is what a batch of a size is believed to take.
type Cost struct {
	Size int     `json:"size"`
	MS   float64 `json:"ms"`
}

// Explanation is what a goal knows.
type Explanation struct {
	ObjectiveMS float64 `json:"latency_objective_ms"`
	// Use is the part of the objective that is planned with.
	Use float64 `json:"use"`
	// Rate is how many requests come in a second; those that are refused too.
	Rate float64 `json:"requests_per_second"`
	// Target is the size of batch for which there is time at this rate.
	Target int `json:"target_batch_size"`
	// Costs are those of the powers of two up to the largest size that was executed.
	Costs    []Cost `json:"costs"`
	Answered uint64 `json:"answered"`
	Late     uint64 `json:"late"`
	Refused  uint64 `json:"refused"`
	Dropped  uint64 `json:"dropped"`
}

// Explain says what the goal knows.
func (g *Goal) Explain(now int64) Explanation {
	const ms = float64(time.Millisecond)
	e := Explanation{
		ObjectiveMS: float64(g.limit) / ms, Use: g.use, Rate: g.rate.at(now) * float64(time.Second), Target: g.target,
		Costs: []Cost{}, Answered: g.answered, Late: g.late, Refused: g.refused, Dropped: g.dropped,
	}
	for n := 1; n <= g.costs.tried; n *= 2 {
		e.Costs = append(e.Costs, Cost{n, float64(g.costs.of(n)) / ms})
	}
	if n := g.costs.tried; n > 0 && n&(n-1) != 0 {
		e.Costs = append(e.Costs, Cost{n, float64(g.costs.of(n)) / ms})
	}
	return e
}
