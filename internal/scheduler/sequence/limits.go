package sequence

import "github.com/nesoserve/neso/internal/ratelimit"

// The batcher asks nobody: that the rate limiter lets an instance run is an event
// to it, like a request. What follows asks on its behalf. limits is nil without a
// rate limiter.

// step takes a step of the batcher, and tells it what the limits say to what it
// wants to run.
func step(now int64, b *batcher, limits *ratelimit.Group, fx *effects) {
	b.limited = limits.Limited()
	b.step(now, fx)
	if !fx.Asks {
		return
	}
	fx.Asks = false
	for _, l := range b.instances {
		was := l.wish
		l.wish = nothing
		switch was {
		case asking:
			if limits.Ask(l.number) {
				b.granted(now, l, fx)
			}
		case withdrawing:
			limits.WithdrawOne(l.number, &fx.Turns)
		default:
		}
	}
}

// done says that a batch has been executed; a step follows if open.
func done(now int64, b *batcher, limits *ratelimit.Group, x *batch, open bool, fx *effects) {
	instance, asked := x.Instance, x.Asked
	b.done(now, x, fx)
	if open {
		step(now, b, limits, fx)
	}
	// Asking comes before giving back, so that others do not get in between.
	if asked && limits.Release(instance, &fx.Turns) && open {
		step(now, b, limits, fx)
	}
}
