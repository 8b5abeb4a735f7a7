package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/lifecycle"
)

// Close makes the server not ready, refuses new requests, waits for those in
// flight until ctx ends, unloads all models and closes the backends. What has
// not ended by then fails, and the error says so. It may be called more than
// once; every call returns when the first one has.
func (e *Engine) Close(ctx context.Context) error { return e.CloseWith(ctx, nil) }

// CloseWith is Close, which calls refusing, unless it is nil, from when on every
// new request is refused: the sequences that had begun have ended.
func (e *Engine) CloseWith(ctx context.Context, refusing func()) error {
	e.stopping.Do(func() {
		e.continuing.Store(true)
		e.move(Exiting)
		e.closeErr = e.close(ctx, refusing)
		close(e.stopped)
	})
	<-e.stopped
	return e.closeErr
}

func (e *Engine) close(ctx context.Context, refusing func()) error {
	e.log.Info("Waiting for in-flight requests to complete.")
	e.reportInflight(ctx, slog.LevelInfo)
	e.mirrors.endSequences()
	ended := e.finishSequences(ctx)
	if refusing != nil {
		refusing()
	}
	drained := e.drain(ctx) && ended
	e.mirrors.stop()
	e.poller.Close()
	e.demand.Close()
	if drained {
		e.log.Info("All models are stopped, unloading models")
	}
	err := e.life.Close(ctx)
	e.watch.end()
	e.mirrors.wait()
	if !drained && err == nil {
		err = timeout()
	}
	e.shared.Close()
	if err := e.repo.Close(); err != nil {
		e.log.Warn("the local copies of the model repositories cannot be removed", "error", err)
	}
	e.closeCache()
	if e.pool != nil {
		e.pool.Close()
	}
	return err
}

// finishSequences lets the sequences that have begun end, by their clients or
// because they are idle, until ctx ends. It reports whether all of them have.
func (e *Engine) finishSequences(ctx context.Context) bool {
	defer e.continuing.Store(false)
	var open []<-chan struct{}
	for _, v := range e.life.Versions("") {
		if v.Model == nil {
			continue
		}
		if over := v.Model.StopSequences(); over != nil {
			open = append(open, over)
		}
	}
	for _, over := range open {
		if !e.await(ctx, over) {
			return false
		}
	}
	return true
}

// await waits for done, or the end of ctx, and says each second for what.
func (e *Engine) await(ctx context.Context, done <-chan struct{}) bool {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-done:
			return true
		case <-second.C:
			e.reportInflight(ctx, slog.LevelInfo)
		case <-ctx.Done():
			return false
		}
	}
}

// drain waits until no request from outside is in the server, or ctx ends.
func (e *Engine) drain(ctx context.Context) bool {
	empty := e.admission.close()
	for e.admission.external.Load() > 0 {
		if !e.await(ctx, empty) {
			e.reportInflight(ctx, slog.LevelError)
			return false
		}
	}
	return true
}

// reportInflight says, in Triton's words, how many seconds are left and which
// models have requests.
func (e *Engine) reportInflight(ctx context.Context, level slog.Level) {
	var busy []lifecycle.Version
	var inflight []int
	for _, v := range e.life.Versions("") {
		if v.Model == nil {
			continue
		}
		if n := v.Model.Unfinished(); n > 0 {
			busy, inflight = append(busy, v), append(inflight, n)
		}
	}
	left := "none"
	if end, ok := ctx.Deadline(); ok {
		left = strconv.Itoa(max(0, int(math.Ceil(time.Until(end).Seconds()))))
	}
	e.log.Log(context.WithoutCancel(ctx), level, fmt.Sprintf("Timeout %s: Found %d model versions that have in-flight inferences", left,
		len(busy)))
	for i, v := range busy {
		e.log.Log(context.WithoutCancel(ctx), level, fmt.Sprintf("Model '%s' (version %d) has %d in-flight inferences", v.Name, v.Version,
			inflight[i]), "model", v.Name, "version", v.Version)
	}
}

func timeout() error {
	return backend.Errorf(backend.Internal, "Exit timeout expired. Exiting immediately.")
}
