package dynamic

import "github.com/nesoserve/neso/internal/ratelimit"

// The batcher asks nobody: that the rate limiter lets an instance run is an event
// to it, like a request. What follows asks on its behalf. limits is nil without a
// rate limiter.

// step takes a step of the batcher, and tells it what the limits say to what it
// wants to run.
func step(now int64, b *batcher, limits *ratelimit.Group, fx *effects) {
	b.limited = limits.Limited()
	b.step(now, fx)
	for fx.Asks {
		fx.Asks = false
		if i := limits.AskAny(b.idle); i >= 0 {
			b.granted(now, i, fx)
		}
	}
	withdraw(limits, fx)
}

// withdraw takes back what the batcher does not want any more.
func withdraw(limits *ratelimit.Group, fx *effects) {
	if fx.Withdraws {
		fx.Withdraws = false
		limits.Withdraw(&fx.Turns)
	}
}

// done says that a batch has been executed, or has come back.
func done(now int64, b *batcher, limits *ratelimit.Group, x *batch, fx *effects) {
	instance, asked := x.Instance, x.Asked
	b.done(now, x)
	step(now, b, limits, fx)
	// Asking comes before giving back, so that others do not get in between.
	if asked && limits.Release(instance, &fx.Turns) {
		step(now, b, limits, fx)
	}
}
