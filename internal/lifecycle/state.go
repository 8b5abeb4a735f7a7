package lifecycle

import "fmt"

// State is the state of one version of a model.
type State uint8

// The states, with the names of the repository index.
const (
	Unknown State = iota
	Loading
	Ready
	Unloading
	Unavailable
	states
)

// String returns the name used in the index and in messages.
func (s State) String() string {
	return [...]string{"UNKNOWN", "LOADING", "READY", "UNLOADING", "UNAVAILABLE"}[s]
}

// moves holds the allowed moves: moves[from][to].
var moves = [states][states]bool{
	Unknown: {Loading: true},
	Loading: {Ready: true, Unavailable: true},
	// A reload is a move from ready to ready: the new version is built beside the
	// old one, which serves until the swap, or goes on when the new one fails.
	Ready: {Ready: true, Unloading: true},
	// A version can be loaded again while its former self drains.
	Unloading:   {Unavailable: true, Loading: true},
	Unavailable: {Loading: true},
}

// ReasonUnloaded is the reason of a version that has served and was unloaded. One
// that has failed to load keeps its reason.
const ReasonUnloaded = "unloaded"

// move changes the state of a version. A move that is not in the table is a
// fault of this package.
func (v *version) move(to State, reason string) {
	if !moves[v.state][to] {
		panic(fmt.Sprintf("lifecycle: move from %s to %s", v.state, to))
	}
	if v.left != nil {
		close(v.left)
		v.left = nil
	}
	if to == Unloading {
		v.left = make(chan struct{})
	}
	v.state, v.reason = to, reason
	v.unwanted = to == Unavailable && reason == ReasonUnloaded
	v.moves++
}
