package near

import (
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Near is one connection's. A worker gives it buffers when it answers, and the server takes
// them by the numbers that the answer has.
type Near struct {
	sender atomic.Pointer[sender]

	mu    sync.Mutex
	sent  []*tensor.Buffer // by number; nil for those that were taken
	free  []uint64         // numbers
	ended bool
}

type sender = func(handle uint64) (by backend.Sender, keep *tensor.Buffer)

// Serve says how the server finds who has sent a request by its handle, and what Sender
// returns beside it: nil for one of a client, and for one that has been answered.
func (n *Near) Serve(f func(handle uint64) (by backend.Sender, keep *tensor.Buffer)) {
	n.sender.Store(&f)
}

// Sender returns the program that has sent a request, nil for others, and the caller's
// reference of what keeps its inputs, where they are in pieces. A nil Near is that of a
// worker in another process.
func (n *Near) Sender(handle uint64) (by backend.Sender, keep *tensor.Buffer) {
	if n == nil {
		return nil, nil
	}
	f := n.sender.Load()
	if f == nil {
		return nil, nil
	}
	return (*f)(handle)
}

// Send consumes a reference of b, which the server takes by the number: 0, which is none's,
// after End.
func (n *Near) Send(b *tensor.Buffer) (number uint64) {
	n.mu.Lock()
	if n.ended { // the server takes nothing any more
		n.mu.Unlock()
		b.Release()
		return 0
	}
	defer n.mu.Unlock()
	if last := len(n.free) - 1; last >= 0 {
		number = n.free[last]
		n.free = n.free[:last]
		n.sent[number-1] = b
		return number
	}
	n.sent = append(n.sent, b)
	return uint64(len(n.sent))
}

// Take returns the buffer of a number, whose reference is the caller's; nil for none.
func (n *Near) Take(number uint64) *tensor.Buffer {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if number == 0 || number > uint64(len(n.sent)) || n.sent[number-1] == nil {
		return nil
	}
	b := n.sent[number-1]
	n.sent[number-1] = nil
	n.free = append(n.free, number)
	return b
}

// End lets go of what has not been taken: the connection is over. A nil Near has nothing.
func (n *Near) End() {
	if n == nil {
		return
	}
	n.mu.Lock()
	left := n.sent
	n.sent, n.free, n.ended = nil, nil, true
	n.mu.Unlock()
	for _, b := range left {
		b.Release()
	}
}
