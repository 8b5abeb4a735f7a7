// Package agents runs repository agents that are libraries, libtritonrepoagent_<name>.so,
// as they are: each in a neso-host of its own, for all models that ask for it. A library
// that crashes or hangs ends that process, and the load that it was about fails.
//
// It owns the process over its lives (agents.go) and what the server knows of one load
// (session.go). What runs in the process is package backend/native/agents/host.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/native/agents/host"
	"github.com/nesoserve/neso/internal/logging"
)

const (
	// defaultLimit bounds a call that a load waits for, where the model does not say
	// otherwise: an agent may fetch large files.
	defaultLimit = 10 * time.Minute
	// tellLimit bounds the others.
	tellLimit = 30 * time.Second
)

// agent is one library. Its calls come one at a time, as those of the peer's do while
// models are read: so it is clear which of them a process that dies has died of.
type agent struct {
	name   string
	plugin *native.Plugin
	turn   chan struct{} // has a place while nobody calls

	// Guarded by turn.
	session *supervise.Session
	life    int
	next    uint32
	closed  bool
}

// Open looks at the library.
func Open(o native.Options, l backend.Library) (backend.Agent, error) {
	p, err := o.OpenPlugin("agent", l)
	if err != nil {
		return nil, err
	}
	a := &agent{name: l.Name, plugin: p, turn: make(chan struct{}, 1)}
	a.turn <- struct{}{}
	return a, nil
}

// take waits for the turn.
func (a *agent) take(ctx context.Context) error {
	select {
	case <-a.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *agent) give() { a.turn <- struct{}{} }

// start starts the process if none lives. The caller has the turn.
func (a *agent) start(ctx context.Context, limit time.Duration) error {
	if a.closed {
		return backend.Errorf(backend.Unavailable, "repository agent '%s' has been closed", a.name)
	}
	if a.session != nil && a.session.Conn.Err() == nil {
		return nil
	}
	a.drop()
	s, err := supervise.Launch(ctx, a.plugin.Spec())
	if err != nil {
		return err
	}
	a.session = s
	a.life++
	_, err = a.call(ctx, limit, "TRITONREPOAGENT_Initialize", wire.KindLoad, 0, host.Open{
		Library: a.plugin.Path, Name: a.name, Preload: a.plugin.Server,
		Verbose: a.plugin.Log().Enabled(context.Background(), logging.LevelVerbose),
	})
	if err != nil {
		a.drop()
	}
	return err
}

// drop ends a process at once. The caller has the turn.
func (a *agent) drop() {
	if a.session != nil {
		a.session.Kill()
		a.session = nil
	}
}

// call has the process do something, in bounded time: one that takes longer is ended.
// The caller has the turn.
func (a *agent) call(
	ctx context.Context, limit time.Duration, what string, kind wire.Kind, number uint32, body any,
) (json.RawMessage, error) {
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := a.session.Conn.Call(timed, kind, number, body)
	switch {
	case err == nil:
		return answer, nil
	case timed.Err() != nil && errors.Is(err, timed.Err()):
		why := fmt.Sprintf("did not come back within %v (%s)", limit, limits.ParamLoadLimit)
		if ctx.Err() != nil {
			why = "was not waited for any longer"
		}
		a.drop()
		return nil, backend.Errorf(backend.Unavailable, "repository agent '%s': %s %s, its process was ended", a.name, what, why)
	case a.session.Conn.Err() != nil:
		e := backend.AsError(err)
		a.drop()
		return nil, backend.Errorf(e.Code, "repository agent '%s', in %s: %s", a.name, what, e.Message)
	}
	return nil, native.Plain(err)
}

// Begin implements backend.Agent.
func (a *agent) Begin(ctx context.Context, m backend.AgentModel) (backend.AgentSession, error) {
	limit, err := limits.LoadLimitOf(m.Limits, nil)
	if err != nil {
		return nil, err
	}
	if _, said := m.Limits[limits.ParamLoadLimit]; !said || limit <= 0 {
		limit = defaultLimit
	}
	if err := a.take(ctx); err != nil {
		return nil, err
	}
	defer a.give()
	if err := a.start(ctx, limit); err != nil {
		return nil, err
	}
	a.next++
	s := &session{agent: a, life: a.life, number: a.next, model: m.Name, limit: limit, location: m.Location}
	body := host.Begin{Parameters: m.Parameters, Config: m.Config, Location: m.Location}
	if body.Scratch, err = s.room(); err != nil {
		return nil, err
	}
	if _, err := a.call(ctx, limit, "TRITONREPOAGENT_ModelInitialize", wire.KindInit, s.number, body); err != nil {
		return nil, errors.Join(err, s.clear())
	}
	return s, nil
}

// Close implements backend.Agent: the library finalizes.
func (a *agent) Close() error {
	<-a.turn
	defer a.give()
	if a.closed {
		return nil
	}
	a.closed = true
	if a.session != nil {
		a.session.Stop()
		a.session = nil
	}
	return a.plugin.Close()
}
