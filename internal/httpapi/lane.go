package httpapi

import "runtime"

const (
	// heavyText is from which size on, in bytes, JSON is heavy work.
	heavyText = 1 << 20
	// heavyInflated is what a compressed body may become before that is heavy work.
	heavyInflated = keepScratch
)

// lane is where heavy work on what clients have sent is done: undoing
// compression, reading and writing large JSON. It has half of the processors, so
// that requests which need little do not wait behind those that need much. Who
// waits for the network must not be in it.
type lane chan struct{}

func newLane() lane { return make(lane, max(1, runtime.GOMAXPROCS(0)/2)) }

func (l lane) enter() { l <- struct{}{} }
func (l lane) leave() { <-l }

// in does f in the lane if it is heavy.
func (l lane) in(heavy bool, f func()) {
	if heavy {
		l.enter()
		defer l.leave()
	}
	f()
}
