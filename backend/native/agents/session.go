package agents

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native/agents/host"
	"github.com/nesoserve/neso/internal/scratch"
)

// session is one load of a model, as the agent knows it.
type session struct {
	agent    *agent
	life     int // of the agent's process that knows it
	number   uint32
	model    string
	limit    time.Duration
	location string
	scratch  *scratch.Dir
	lost     bool // its process has died, which has been logged
}

// room makes the directory in which the agent acquires others.
func (s *session) room() (string, error) {
	const prefix = "neso-agent-"
	dir, err := scratch.New(prefix)
	if err != nil {
		return "", err
	}
	s.scratch = dir
	return dir.Path, s.agent.plugin.Share(dir.Path)
}

func (s *session) clear() error {
	if s.scratch == nil {
		return nil
	}
	return s.scratch.Remove()
}

// Location implements backend.AgentSession.
func (s *session) Location() string { return s.location }

// gone reports whether the process that knows the load has ended, of something else.
// The caller has the turn.
func (s *session) gone() bool {
	a := s.agent
	if !a.closed && a.life == s.life && a.session != nil && a.session.Conn.Err() == nil {
		return false
	}
	if !s.lost {
		s.lost = true
		a.plugin.Log().Warn("a repository agent is not told of the rest of a model's life: its process has ended since the load",
			slog.String("model", s.model))
	}
	return true
}

// Act implements backend.AgentSession.
func (s *session) Act(ctx context.Context, action backend.AgentAction) error {
	a, limit := s.agent, s.limit
	if action != backend.AgentLoad {
		limit = min(limit, tellLimit)
	}
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.give()
	if s.gone() {
		if action != backend.AgentLoad {
			return nil
		}
		return backend.Errorf(backend.Unavailable, "repository agent '%s' has ended meanwhile", a.name)
	}
	answer, err := a.call(ctx, limit, action.String(), wire.KindLoad, s.number, host.Act{Action: uint8(action)})
	if err != nil {
		s.lost = a.session == nil // the error says so
		return err
	}
	var acted host.Acted
	if err := json.Unmarshal(answer, &acted); err != nil {
		return backend.Errorf(backend.Internal, "answer of repository agent '%s' for model '%s': %v", a.name, s.model, err)
	}
	if action == backend.AgentLoad && filepath.IsAbs(acted.Location) {
		s.location = acted.Location
	}
	return nil
}

// End implements backend.AgentSession.
func (s *session) End(ctx context.Context) error {
	a := s.agent
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.give()
	var err error
	if !s.gone() {
		_, err = a.call(ctx, min(s.limit, tellLimit), "TRITONREPOAGENT_ModelFinalize", wire.KindUnload, s.number, struct{}{})
	}
	if failed := s.clear(); err == nil {
		err = failed
	}
	return err
}
