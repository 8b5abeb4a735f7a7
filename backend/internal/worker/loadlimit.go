package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

const (
	// loadNotice is how long a load takes before the log says that it goes on. The log
	// says so again whenever the load has taken twice as long.
	loadNotice = 30 * time.Second
	// memoryLook is how often the memory of a limited worker is looked at.
	memoryLook = time.Second
)

// LoadOptions are what a connection knows of the process whose load it asks for.
type LoadOptions struct {
	Limit  time.Duration // of each step; 0: none
	Memory uint64        // that it may have; 0: as much as there is
	PID    int
}

// PID is the number of the process that ConnOptions name, 0 for none.
func (c *Conn) PID() int { return c.opts.Load.PID }

// Load sends LOAD or INIT and waits for READY, as Call does. A worker that takes longer
// than it may is ended, and the error says so. The error also says so when the worker
// has failed at the limit of its memory.
func (c *Conn) Load(ctx context.Context, kind wire.Kind, instance uint32, body any) (json.RawMessage, error) {
	w := &loadWatch{conn: c, kind: kind, stop: make(chan struct{})}
	var watch sync.WaitGroup
	watch.Go(w.run)
	answer, err := c.Call(ctx, kind, instance, body)
	close(w.stop)
	watch.Wait()
	if err != nil && ctx.Err() == nil {
		err = w.explain(err)
	}
	return answer, err
}

// loadWatch looks after one step of a load.
type loadWatch struct {
	conn *Conn
	kind wire.Kind
	stop chan struct{}
	most uint64 // bytes of its own memory that the worker was seen to have
}

// run ends when stop is closed or the limit has passed. A timer that is nil
// never fires.
func (w *loadWatch) run() {
	o := w.conn.opts.Load
	begin := time.Now()
	next := loadNotice
	notice := time.NewTimer(next)
	defer notice.Stop()
	var late, look <-chan time.Time
	if o.Limit > 0 {
		t := time.NewTimer(o.Limit)
		defer t.Stop()
		late = t.C
	}
	if o.Memory > 0 {
		t := time.NewTicker(memoryLook)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case <-w.stop:
			return
		case <-look:
			w.most = max(w.most, limits.OwnMemory(o.PID))
		case <-notice.C:
			attrs := []any{slog.Duration("since", time.Since(begin).Round(time.Second))}
			if o.Limit > 0 {
				attrs = append(attrs, slog.Duration("limit", o.Limit))
			}
			if o.Memory > 0 {
				attrs = append(attrs, slog.String("memory", memoryText(w.most, o.Memory)))
			}
			w.conn.logger().Warn("the worker is still loading", attrs...)
			notice.Reset(next) // from now on: twice as long by then
			next *= 2
		case <-late:
			w.most = max(w.most, limits.OwnMemory(o.PID))
			late := &LateError{what: w.what(), limit: o.Limit, by: limits.ParamLoadLimit}
			if o.Memory > 0 { // also when it is not near: who wants much at once has little
				late.note = memoryText(w.most, o.Memory)
			}
			w.conn.end(late)
			return
		}
	}
}

func (w *loadWatch) what() string {
	if w.kind == wire.KindLoad {
		return "the model was not loaded"
	}
	return "the instance was not initialized"
}

// note says that the memory was near its limit, else "".
func (w *loadWatch) note() string {
	limit := w.conn.opts.Load.Memory
	if limit == 0 || w.most < limit/4*3 {
		return ""
	}
	return memoryText(w.most, limit)
}

func memoryText(have, limit uint64) string {
	return fmt.Sprintf("%d of the %d MiB that %s allows", have>>20, limit>>20, limits.ParamMemory)
}

// memorySigns are texts in failures that come of too little memory. Python loses its
// exception where there is no memory for one.
var memorySigns = []string{
	"MemoryError", "bad_alloc", "llocate memory", "out of memory", "failed to map segment", "error return without exception set",
}

// explain adds the limit of the memory to the failure of a worker that was near that
// limit, or whose failure speaks of memory.
func (w *loadWatch) explain(err error) error {
	o := w.conn.opts.Load
	if o.Memory == 0 || strings.Contains(err.Error(), limits.ParamMemory) {
		return err
	}
	w.most = max(w.most, limits.OwnMemory(o.PID))
	note := w.note()
	for _, sign := range memorySigns {
		if note == "" && strings.Contains(err.Error(), sign) {
			note = fmt.Sprintf("%d MiB by %s", o.Memory>>20, limits.ParamMemory)
		}
	}
	if note == "" {
		return err
	}
	note = "; its memory is limited, and what it needs may be more: " + note
	if failed, ok := errors.AsType[*CallError](err); ok {
		return &CallError{Message: failed.Message + note, Traceback: failed.Traceback, Code: failed.Code}
	}
	e := backend.AsError(err)
	return &backend.Error{Code: e.Code, Message: e.Message + note}
}
