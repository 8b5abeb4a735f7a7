// Package lane bounds how many processors heavy work on what clients have sent
// may use: undoing compression, reading and writing large JSON. One Lane is for
// the whole server, whatever the protocol.
package lane

import "runtime"

// Lane has half of the processors, at least one, so that requests which need
// little do not wait behind those that need much. Who waits for the network must
// not be in it.
type Lane chan struct{}

// New returns a lane that nobody is in.
func New() Lane { return make(Lane, max(1, runtime.GOMAXPROCS(0)/2)) }

// Enter waits for a place, which Leave gives back. It reports false, and there is
// none, when gone is closed before: who works for a client that has gone keeps
// what the request holds for nothing.
func (l Lane) Enter(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return false
	default:
	}
	select {
	case l <- struct{}{}:
		return true
	case <-gone:
		return false
	}
}

// Leave gives the place back.
func (l Lane) Leave() { <-l }

// In does f, in the lane if it is heavy, and reports whether it has.
func (l Lane) In(gone <-chan struct{}, heavy bool, f func()) bool {
	if heavy {
		if !l.Enter(gone) {
			return false
		}
		defer l.Leave()
	}
	f()
	return true
}
