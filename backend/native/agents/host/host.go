// Package host is the worker's side of package backend/native/agents: what a neso-host
// with a repository agent runs. It speaks the worker protocol and has an Agent, which
// is C's business (package capi/agent), do what the server asks. Open host.go first.
package host

import (
	"encoding/json"
	"errors"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/backend/native/host"
)

// Agent is a library that was opened. Its methods are called one at a time.
type Agent interface {
	Open(o *Open) error
	// Begin, Act and End are those of a load, which has a number.
	Begin(number uint32, b *Begin) error
	Act(number uint32, a *Act) (*Acted, error)
	End(number uint32) error
	// Exit ends all that is left.
	Exit()
}

// Server is the way to the server.
type Server struct {
	host.Plugin
	agent Agent
}

// Connect takes over the inherited channels.
func Connect() (*Server, error) {
	s := &Server{}
	return s, s.Join(s)
}

// Serve works until the server says that it is enough, or is gone. It returns the
// exit status.
func (s *Server) Serve(a Agent) int {
	s.agent = a
	return s.Guest().Run()
}

// Call implements guest.Handler.
func (s *Server) Call(kind wire.Kind, number uint32, body json.RawMessage) (any, error) {
	return dispatch(s.agent, kind, number, body)
}

// dispatch has the agent do what a frame asks for.
func dispatch(to Agent, kind wire.Kind, number uint32, body json.RawMessage) (any, error) {
	switch {
	case kind == wire.KindLoad && number == 0:
		var o Open
		if err := json.Unmarshal(body, &o); err != nil {
			return nil, err
		}
		return nil, to.Open(&o)
	case kind == wire.KindInit:
		var b Begin
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, err
		}
		return nil, to.Begin(number, &b)
	case kind == wire.KindLoad:
		var a Act
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, err
		}
		return to.Act(number, &a)
	case kind == wire.KindUnload:
		return nil, to.End(number)
	default:
		return nil, errors.New("worker protocol: a repository agent does not know this call")
	}
}

// Exit implements guest.Handler.
func (s *Server) Exit() { s.agent.Exit() }
