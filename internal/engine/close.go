package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/nesoserve/neso/backend"
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
	e.finishSequences(ctx)
	if refusing != nil {
		refusing()
	}
	drained := e.drain(ctx)
	e.poller.close()
	if drained {
		e.log.Info("All models are stopped, unloading models")
	}
	err := e.life.Close(ctx)
	e.watch.end()
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
// because they are idle, until ctx ends.
func (e *Engine) finishSequences(ctx context.Context) {
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
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}

// drain waits until no request from outside is in the server, or ctx ends.
func (e *Engine) drain(ctx context.Context) bool {
	empty := e.admission.close()
	for e.admission.external.Load() > 0 {
		select {
		case <-empty:
		case <-ctx.Done():
			e.reportInflight()
			return false
		}
	}
	return true
}

func (e *Engine) reportInflight() {
	for _, v := range e.life.Versions("") {
		if v.Model == nil {
			continue
		}
		if n := v.Model.Inflight(); n > 0 {
			e.log.Error(fmt.Sprintf("Model '%s' (version %d) has %d in-flight inferences", v.Name, v.Version, n), "model", v.Name, "version", v.Version)
		}
	}
}

func timeout() error {
	return backend.Errorf(backend.Internal, "Exit timeout expired. Exiting immediately.")
}

// IsTimeout reports whether an error of Close says that requests were cut off.
func IsTimeout(err error) bool {
	var b *backend.Error
	return errors.As(err, &b) && b.Code == backend.Internal && b.Message == timeout().Error()
}
