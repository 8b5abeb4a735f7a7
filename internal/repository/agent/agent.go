// Package agent holds the repository agents: what a model's configuration asks
// to be done with its files before they are loaded. The checksum agent is built
// in; the others are libraries, which package backend/native/agents runs.
//
// A Set is the agents of a server, a Chain those of one load of a model, up to its
// unload. Open chain.go first.
package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// DefaultDirectory is where the peer looks for agents by default.
const DefaultDirectory = "/opt/tritonserver/repoagents"

// checksum is the agent that is built in.
const checksum = "checksum"

// Set is the agents of a server. An agent is there as long as a load uses it.
type Set struct {
	directory string
	libraries backend.Libraries
	host      backend.Host
	log       *slog.Logger

	mu   sync.Mutex
	open map[string]*used // by name
}

// used is an agent with the number of those who use it.
type used struct {
	mu    sync.Mutex // held while it is opened or closed
	agent backend.Agent
	users int // guarded by Set.mu
}

// NewSet returns the agents whose libraries lie in a directory, "" for the usual one.
// libraries runs them; nil where the server cannot. host takes their metrics.
func NewSet(directory string, libraries backend.Libraries, host backend.Host, log *slog.Logger) *Set {
	if directory == "" {
		directory = DefaultDirectory
	}
	return &Set{directory: filepath.Clean(directory), libraries: libraries, host: host, log: log, open: map[string]*used{}}
}

// library is the name under which the peer looks for an agent.
func library(agent string) string {
	if runtime.GOOS == "windows" {
		return "tritonrepoagent_" + agent + ".dll"
	}
	return "libtritonrepoagent_" + agent + ".so"
}

// find returns the library of an agent.
func (s *Set) find(name string) (string, error) {
	if name == "." || strings.ContainsAny(name, "/\\\x00") || !filepath.IsLocal(name) {
		return "", backend.Errorf(backend.InvalidArg, "invalid repo agent name '%s', the name must not contain path traversal characters", name)
	}
	path := filepath.Join(s.directory, name, library(name))
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", backend.Errorf(backend.InvalidArg, "unable to find '%s' for repo agent '%s', searched: %s", library(name), name, s.directory)
	}
	if s.libraries == nil {
		return "", backend.Errorf(backend.Unsupported, "this server runs no libraries of repository agents: '%s'", name)
	}
	return filepath.Abs(path)
}

// take returns an agent that give gives back.
func (s *Set) take(name string) (*used, error) {
	path, err := s.find(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	u := s.open[name]
	if u == nil {
		u = &used{}
		s.open[name] = u
	}
	u.users++
	s.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.agent == nil {
		if u.agent, err = s.libraries.Agent(backend.Library{Name: name, Path: path, Logger: s.log, Host: s.host}); err != nil {
			s.leave(name, u)
			return nil, err
		}
	}
	return u, nil
}

// leave counts a user less, and reports whether that was the last one.
func (s *Set) leave(name string, u *used) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.users--; u.users > 0 {
		return false
	}
	delete(s.open, name)
	return true
}

// give gives an agent back. The last user ends it.
func (s *Set) give(name string, u *used) {
	if !s.leave(name, u) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.agent.Close(); err != nil {
		s.log.Warn("a repository agent ends with an error", "agent", name, "error", err)
	}
}

// Model is a load of a model.
type Model struct {
	Name   string
	Agents []modelconfig.Agent
	// Directory has the files, Config is the configuration as JSON.
	Directory string
	Config    []byte
	// Read reads the configuration of a directory that an agent has named; nil where
	// it has none.
	Read func(directory string) []byte
	// Limits are parameters of the model that bound its agents.
	Limits map[string]string
	// BuiltIn leaves out the agents that are libraries: the model is looked at, and not
	// to be loaded.
	BuiltIn bool
}

// Load runs the agents of a model, in order. The first failure ends it and fails the
// load. The chain that it returns otherwise is to be ended.
func (s *Set) Load(ctx context.Context, m *Model) (*Chain, error) {
	c := &Chain{set: s, model: m.Name, directory: m.Directory}
	config := m.Config
	for _, a := range m.Agents {
		var err error
		switch {
		case a.Name == checksum:
			err = checksums(c.directory, a.Parameters)
		case !m.BuiltIn:
			var moved bool
			if moved, err = c.add(ctx, m, a, config); moved {
				config = m.Read(c.directory)
			}
		}
		if err != nil {
			c.End()
			return nil, err
		}
	}
	return c, nil
}
