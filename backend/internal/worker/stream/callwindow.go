package stream

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// CallWindow bounds the responses of a decoupled model that the model which called it
// has not taken yet. Window and costs are those of a stream to a client.
type CallWindow struct {
	more chan struct{} // credit has come

	mu    sync.Mutex
	spent int // what was sent and not yet taken
}

// NewCallWindow returns one that is open.
func NewCallWindow() *CallWindow { return &CallWindow{more: make(chan struct{}, 1)} }

// Spend waits for room and counts the response; false when ctx ended before.
func (w *CallWindow) Spend(ctx context.Context, resp *backend.Response) bool {
	size := 0
	if resp.Err == nil {
		for i := range resp.Outputs {
			size += resp.Outputs[i].Size()
		}
	}
	for {
		w.mu.Lock()
		if w.spent < Window {
			w.spent += 1 + size/CreditBytes
			w.mu.Unlock()
			return true
		}
		w.mu.Unlock()
		select {
		case <-w.more:
		case <-ctx.Done():
			return false
		}
	}
}

// Credit notes that so much has been taken.
func (w *CallWindow) Credit(taken int) {
	w.mu.Lock()
	w.spent -= taken
	w.mu.Unlock()
	notify(w.more)
}
