package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// ParamLoadLimit is the parameter of a model that bounds each step of a worker's
// load in seconds; SettingLoadLimit is that of a backend.
const (
	ParamLoadLimit   = "LOAD_TIMEOUT_SECONDS"
	SettingLoadLimit = "load-timeout-seconds"
)

const (
	// defaultLoadLimit is far above what a model takes that loads at all: engines
	// are built in an hour, where Triton waits for ever.
	defaultLoadLimit = 2 * time.Hour
	// limitedLoadLimit is for workers whose memory is limited: libraries of
	// frameworks try for ever to get what they cannot have.
	limitedLoadLimit = 5 * time.Minute
	// loadNotice is after what time a load is reported that goes on, and then
	// whenever it has taken twice as long.
	loadNotice = 30 * time.Second
	// memoryLook is how often the memory of a limited worker is looked at.
	memoryLook = time.Second
)

// ParseSeconds reads a number of seconds, which may have a fraction.
func ParseSeconds(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0) || seconds > 1e9 { // not for NaN either
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// LoadLimitOf returns how long each step of a load may take by the parameters
// of the model, else by the settings of its backend, else by default; 0 is no
// bound.
func LoadLimitOf(parameters, settings map[string]string) (time.Duration, error) {
	if text, ok := parameters[ParamLoadLimit]; ok {
		limit, ok := ParseSeconds(text)
		if !ok {
			return 0, backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number of seconds from 0 on", ParamLoadLimit, text)
		}
		return limit, nil
	}
	if text, ok := settings[SettingLoadLimit]; ok {
		limit, ok := ParseSeconds(text)
		if !ok {
			return 0, backend.Errorf(backend.InvalidArg, "%s must be a number of seconds from 0 on, found '%s'", SettingLoadLimit, text)
		}
		return limit, nil
	}
	if parameters[paramMemory] != "" {
		return limitedLoadLimit, nil
	}
	return defaultLoadLimit, nil
}

// loadOptions are what a connection knows of the process whose load it asks for.
type loadOptions struct {
	limit  time.Duration // of each step; 0: none
	memory uint64        // that it may have; 0: as much as there is
	pid    int
}

// Load sends LOAD or INIT and waits for READY, as Call does, but no longer than
// the worker may take: then the worker is ended, and the error says so. One that
// failed at the limit of its memory says that too.
func (c *Conn) Load(ctx context.Context, kind Kind, instance uint32, body any) (json.RawMessage, error) {
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
	kind Kind
	stop chan struct{}
	most uint64 // bytes of its own memory that the worker was seen to have
}

// run ends when stop is closed or the limit has passed. A timer that is nil
// never fires.
func (w *loadWatch) run() {
	o := w.conn.opts.load
	begin := time.Now()
	next := loadNotice
	notice := time.NewTimer(next)
	defer notice.Stop()
	var late, look <-chan time.Time
	if o.limit > 0 {
		t := time.NewTimer(o.limit)
		defer t.Stop()
		late = t.C
	}
	if o.memory > 0 {
		t := time.NewTicker(memoryLook)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case <-w.stop:
			return
		case <-look:
			w.most = max(w.most, ownMemory(o.pid))
		case <-notice.C:
			attrs := []any{slog.Duration("since", time.Since(begin).Round(time.Second))}
			if o.limit > 0 {
				attrs = append(attrs, slog.Duration("limit", o.limit))
			}
			if o.memory > 0 {
				attrs = append(attrs, slog.String("memory", memoryText(w.most, o.memory)))
			}
			w.conn.logger().Warn("the worker is still loading", attrs...)
			notice.Reset(next) // from now on: twice as long by then
			next *= 2
		case <-late:
			w.most = max(w.most, ownMemory(o.pid))
			late := &lateError{what: w.what(), limit: o.limit, by: ParamLoadLimit}
			if o.memory > 0 { // also when it is not near: who wants much at once has little
				late.note = memoryText(w.most, o.memory)
			}
			w.conn.end(late)
			return
		}
	}
}

func (w *loadWatch) what() string {
	if w.kind == KindLoad {
		return "the model was not loaded"
	}
	return "the instance was not initialized"
}

// note says that the memory was near its limit, else "".
func (w *loadWatch) note() string {
	limit := w.conn.opts.load.memory
	if limit == 0 || w.most < limit/4*3 {
		return ""
	}
	return memoryText(w.most, limit)
}

func memoryText(have, limit uint64) string {
	return fmt.Sprintf("%d of the %d MiB that %s allows", have>>20, limit>>20, paramMemory)
}

// memorySigns are what failures say that come of too little memory. Python
// loses its exception where there is no memory for one.
var memorySigns = []string{"MemoryError", "bad_alloc", "llocate memory", "out of memory", "failed to map segment", "error return without exception set"}

// explain adds the limit of the memory to the failure of a worker that was near
// it, or that says so itself.
func (w *loadWatch) explain(err error) error {
	o := w.conn.opts.load
	if o.memory == 0 || strings.Contains(err.Error(), paramMemory) {
		return err
	}
	w.most = max(w.most, ownMemory(o.pid))
	note := w.note()
	for _, sign := range memorySigns {
		if note == "" && strings.Contains(err.Error(), sign) {
			note = fmt.Sprintf("%d MiB by %s", o.memory>>20, paramMemory)
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

// ownMemory is how much writable memory of its own a process has, what
// WORKER_MEMORY_BYTES bounds; 0 where that is not known.
func ownMemory(pid int) uint64 { return memoryOf(pid, "VmData:") }

// HostMemory implements backend.MemoryUser: the resident memory of the process. What
// it shares with others counts too.
func (w *Worker) HostMemory() uint64 {
	w.mu.Lock()
	inst := w.inst
	w.mu.Unlock()
	if inst == nil {
		return 0
	}
	size := memoryOf(inst.conn.opts.load.pid, "VmRSS:")
	if inst.conn.Err() != nil { // the number may be another's by now
		return 0
	}
	return size
}

// memoryOf returns one of the sizes in /proc/PID/status in bytes, 0 where it is not
// known.
func memoryOf(pid int, line string) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	field := []byte(line)
	for line := range bytes.Lines(text) {
		if size, ok := bytes.CutPrefix(line, field); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(string(size)), " kB"), 10, 53)
			return n << 10
		}
	}
	return 0
}
