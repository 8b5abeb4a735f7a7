package supervise

import "time"

const (
	// loopDeaths within loopWindow without a success are a crash loop.
	loopDeaths = 5
	loopWindow = time.Minute
	// The first restart is immediate; then the delay doubles between these.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
	// probation is how long a worker must have lived after a crash loop to count
	// as ready again.
	probation = 10 * time.Second
)

// restarts decides when a dead worker is started again. It is pure: the caller
// says what happened and when.
type restarts struct {
	deaths []time.Duration // without a success since, the last loopDeaths of them
	streak int
	loop   bool
	since  time.Duration // when it last came to life
	window time.Duration // in place of loopWindow if that is shorter: for deaths that take their time
}

// died notes a death, or a start that failed, and returns how long to wait.
func (r *restarts) died(now time.Duration, success bool) time.Duration {
	if success {
		r.streak, r.deaths, r.loop = 0, r.deaths[:0], false
	}
	r.streak++
	r.deaths = append(r.deaths, now)
	if len(r.deaths) > loopDeaths {
		r.deaths = append(r.deaths[:0], r.deaths[1:]...)
	}
	if len(r.deaths) == loopDeaths && now-r.deaths[0] <= max(loopWindow, r.window) {
		r.loop = true
	}
	if r.streak == 1 {
		return 0
	}
	return min(minBackoff<<min(r.streak-2, 16), maxBackoff)
}

// started notes that the worker is alive.
func (r *restarts) started(now time.Duration) { r.since = now }

// looping reports whether the worker is in a crash loop. alive says whether it
// lives at the moment.
func (r *restarts) looping(now time.Duration, alive, success bool) bool {
	return r.loop && !success && (!alive || now-r.since < probation)
}
