package ledger

import (
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// earlyLimit bounds releases of blocks that were not known to be held.
const earlyLimit = 1 << 16

// Ledger is the account of one worker. It is guarded by its user's lock. The zero
// value is ready to use.
type Ledger struct {
	held    map[wire.Block][]*tensor.Buffer
	early   map[wire.Block]int // a RELEASE that came before the response it belongs to
	returns []wire.Block       // the worker's own, to be told of
}

// Hold keeps a buffer that the worker goes on to read, until it releases the block.
// It takes a reference, unless the release has come already.
func (l *Ledger) Hold(k wire.Block, buf *tensor.Buffer) {
	if n := l.early[k]; n > 0 {
		if n == 1 {
			delete(l.early, k)
		} else {
			l.early[k] = n - 1
		}
		return
	}
	l.Give(k, buf.Retain())
}

// Give keeps a buffer that the worker is given just now, until it releases the block.
// It consumes the reference.
func (l *Ledger) Give(k wire.Block, buf *tensor.Buffer) {
	if l.held == nil {
		l.held = map[wire.Block][]*tensor.Buffer{}
	}
	l.held[k] = append(l.held[k], buf)
}

// Held returns the buffers that are kept for a block.
func (l *Ledger) Held(k wire.Block) []*tensor.Buffer { return l.held[k] }

// Release notes that the worker no longer reads a block. It returns a buffer whose
// reference is the caller's, nil where none is held yet.
func (l *Ledger) Release(k wire.Block) *tensor.Buffer {
	list := l.held[k]
	if len(list) == 0 {
		if l.early == nil {
			l.early = map[wire.Block]int{}
		}
		l.early[k]++
		return nil
	}
	last := list[len(list)-1]
	if len(list) == 1 {
		delete(l.held, k)
	} else {
		l.held[k] = list[:len(list)-1]
	}
	return last
}

// Overdrawn reports whether the worker has released more blocks that are not held
// than it can have.
func (l *Ledger) Overdrawn() bool { return len(l.early) > earlyLimit }

// Return notes that the worker may use a block of its own again, and returns how many
// such blocks it has not been told of.
func (l *Ledger) Return(k wire.Block) int {
	l.returns = append(l.returns, k)
	return len(l.returns)
}

// AppendReturns appends a RELEASE of the blocks of Return, if there are any.
func (l *Ledger) AppendReturns(dst []byte) []byte {
	if len(l.returns) > 0 {
		dst = wire.AppendRelease(dst, l.returns)
		l.returns = l.returns[:0]
	}
	return dst
}

// Returns reports whether there are blocks that the worker has not been told of.
func (l *Ledger) Returns() bool { return len(l.returns) > 0 }

// End forgets everything, since the worker is gone. The references are the caller's.
func (l *Ledger) End() (left []*tensor.Buffer) {
	for _, list := range l.held {
		left = append(left, list...)
	}
	*l = Ledger{}
	return left
}
