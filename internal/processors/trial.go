package processors

// Where half of the processors are nearly enough, all of them may serve less: with one to
// spare, threads are woken for what the others would have done in the same time. Which
// it is depends on the load, and on who else wants the cores. So both are tried, for as
// long as a user does not notice, and what has served more requests stays.

const (
	// trialWindows is how long the other number is tried. Nothing is made of the first
	// window: the change takes some of it.
	trialWindows = 4
	// worth is how much more all processors have to serve than half of them, which need
	// less CPU for it.
	worth = 1.05
	// hopeless is what the first window of half the processors must serve of what all
	// have served, for the trial to go on.
	hopeless = 0.85
	// fewest requests in a window tell something.
	fewest = 100
	// tryShare is how much of the lower number may be in use for it to be tried.
	tryShare = 1.25
	// What a trial has found holds for so many windows, twice as many each time that the
	// next one finds the same.
	firstHold, lastHold = stay, 32 * stay
	// A load of so many times the requests, or so small a part of them, is another one.
	another = 2
)

// trial compares half of the processors with all of them.
type trial struct {
	last, now float64 // requests of the window before, and of this one
	left      int     // windows until the end; 0 while nothing is tried
	before    float64 // requests in a window before it began
	sum       float64 // of the windows that count
	found     int     // what the last one has found to be better; 0 before the first
	of        float64 // and with how many requests in a window
	hold      int     // windows for which that held when it was found
	holds     int     // of those, how many are left
}

// passes takes a window.
func (t *trial) passes(m measured) {
	t.last, t.now = t.now, m.served
	t.holds = max(0, t.holds-1)
}

// knows reports whether what was found last holds for this load.
func (t *trial) knows(m measured) bool {
	return t.holds > 0 && m.served > t.of/another && m.served < t.of*another
}

// begin begins a trial, where there are enough requests to tell, and as many as before.
func (t *trial) begin() bool {
	if min(t.last, t.now) < max(fewest, max(t.last, t.now)/another) {
		return false
	}
	t.left, t.before, t.sum = trialWindows, (t.last+t.now)/2, 0
	return true
}

// goesOn takes a window of the trial, and returns how many processors come next.
func (t *trial) goesOn(m measured, now, low, all int) int {
	t.left--
	if now < all && m.served < hopeless*t.before {
		return t.ends(all)
	}
	if t.left < trialWindows-1 {
		t.sum += m.served
	}
	if t.left > 0 {
		return now
	}
	few, many := t.sum/(trialWindows-1), t.before
	if now == all {
		few, many = many, few
	}
	if many < worth*few {
		return t.ends(low)
	}
	return t.ends(all)
}

func (t *trial) ends(better int) int {
	if t.hold = min(2*t.hold, lastHold); t.found != better {
		t.hold = firstHold
	}
	t.left, t.found, t.of, t.holds = 0, better, t.before, t.hold
	return better
}
