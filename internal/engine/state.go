package engine

// State is the state of the server.
type State uint32

// The states of the server.
const (
	Initializing State = iota
	Ready
	Exiting
	Failed
	states
)

// String returns the peer's word for the state.
func (s State) String() string {
	return [...]string{"INITIALIZING", "READY", "EXITING", "FAILED"}[s]
}

// moves holds the allowed moves: moves[from][to].
var moves = [states][states]bool{
	Initializing: {Ready: true, Failed: true, Exiting: true},
	Ready:        {Exiting: true},
	Failed:       {Exiting: true},
}

// State returns the state of the server.
func (e *Engine) State() State { return State(e.state.Load()) }

// move changes the state and reports whether the table allows it.
func (e *Engine) move(to State) bool {
	for {
		from := e.State()
		if !moves[from][to] {
			return false
		}
		if e.state.CompareAndSwap(uint32(from), uint32(to)) {
			return true
		}
	}
}
