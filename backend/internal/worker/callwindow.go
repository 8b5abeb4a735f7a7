package worker

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// callWindow bounds what a called decoupled model may be ahead of the model
// that called it, with the window and the costs of a stream to a client.
type callWindow struct {
	more chan struct{} // credit has come

	mu    sync.Mutex
	spent int // what was sent and not yet taken
}

// spend waits for room and counts the response; false when ctx ended before.
func (w *callWindow) spend(ctx context.Context, resp *backend.Response) bool {
	size := 0
	if resp.Err == nil {
		for i := range resp.Outputs {
			size += resp.Outputs[i].Size()
		}
	}
	for {
		w.mu.Lock()
		if w.spent < Window {
			w.spent += 1 + size/creditBytes
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

func (w *callWindow) credit(taken int) {
	w.mu.Lock()
	w.spent -= taken
	w.mu.Unlock()
	notify(w.more)
}
