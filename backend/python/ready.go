package python

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// readyLimit is how long a model's own is_ready may take, its wait for the
// batches that its worker has before included.
const readyLimit = 5 * time.Second

// probe asks a model's is_ready. Callers at the same time share one call.
type probe struct {
	conn *worker.Conn // of the present life; nil for a model without is_ready
	mu   sync.Mutex
	call *probeCall
	last error // what the last call in this life has said; nil before the first
}

type probeCall struct {
	done chan struct{}
	err  error
}

// has notes the worker's answer to INIT.
func (p *probe) has(c *worker.Conn, init json.RawMessage) error {
	var body struct {
		IsReady bool `json:"is_ready"`
	}
	if err := json.Unmarshal(init, &body); err != nil {
		return backend.Errorf(backend.Internal, "READY of INIT: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.last = nil, nil
	if body.IsReady {
		p.conn = c
	}
	return nil
}

// asks reports whether the model has an is_ready.
func (p *probe) asks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn != nil
}

// ready returns nil, or why the model says that it is not ready.
func (p *probe) ready(log *slog.Logger) error {
	p.mu.Lock()
	if p.conn == nil {
		p.mu.Unlock()
		return nil
	}
	call := p.call
	if call != nil {
		p.mu.Unlock()
		t := time.NewTimer(readyLimit)
		defer t.Stop()
		select {
		case <-call.done:
			return call.err
		case <-t.C:
			return backend.Errorf(backend.Unavailable, "Timed out waiting for in-flight is_ready() response")
		}
	}
	call = &probeCall{done: make(chan struct{})}
	p.call = call
	conn := p.conn
	p.mu.Unlock()
	err := ask(conn)
	if err != nil && !errors.Is(err, errHeld) {
		log.Warn("model is not ready", slog.String("error", err.Error()))
	}
	p.mu.Lock()
	if p.call = nil; errors.Is(err, errHeld) {
		err = p.last
	} else if p.conn == conn {
		p.last = err
	}
	p.mu.Unlock()
	call.err = err
	close(call.done)
	return call.err
}

// errHeld says that a program which is given an answer of the model holds up all others. It
// may be the one that asks.
var errHeld = errors.New("answers of the model are held up")

func ask(c *worker.Conn) error {
	held, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer c.Held(func() { cancel(errHeld) })()
	ctx, end := context.WithTimeout(held, readyLimit)
	defer end()
	answer, err := c.Call(ctx, wire.KindControl, 0, map[string]string{"op": "is_ready"})
	var failed *worker.CallError
	switch {
	case err != nil && errors.Is(context.Cause(held), errHeld):
		return errHeld
	case errors.Is(err, context.DeadlineExceeded):
		return backend.Errorf(backend.Unavailable, "Timed out waiting for user-defined is_ready() response")
	case errors.As(err, &failed):
		return backend.Errorf(backend.Internal, "%s", failed.Message)
	case err != nil:
		return err
	}
	var body struct {
		Ready bool `json:"ready"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return backend.Errorf(backend.Internal, "is_ready(): %v", err)
	}
	if !body.Ready {
		return backend.Errorf(backend.Unavailable, "is_ready() of the model returned False")
	}
	return nil
}
