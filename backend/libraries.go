package backend

import (
	"context"
	"log/slog"
)

// Library is a shared library of a user's that is no backend.
type Library struct {
	// Name is that of the agent or cache, Path the file.
	Name, Path string
	Logger     *slog.Logger
	// Host takes the metrics that the library makes; nil: none.
	Host Host
}

// Libraries runs repository agents and response caches that are shared libraries. See
// package backend/native/plugins.
type Libraries interface {
	// Agent looks at the file of a repository agent. It runs from its first Begin on.
	Agent(l Library) (Agent, error)
	// Cache starts a response cache with its configuration, a JSON object.
	Cache(ctx context.Context, l Library, config []byte) (Cache, error)
}

// Agent is a repository agent: what a model's configuration asks to be done with its
// files before they are loaded. Its methods may be called concurrently.
type Agent interface {
	// Begin tells the agent of a load that begins.
	Begin(ctx context.Context, m AgentModel) (AgentSession, error)
	// Close ends the agent. There are no sessions any more.
	Close() error
}

// AgentModel is what an agent is told of a load.
type AgentModel struct {
	Name string
	// Parameters are the agent's own, as pairs of name and value.
	Parameters [][2]string
	// Config is the model's configuration as JSON; nil where its location has none.
	Config []byte
	// Location is the directory of the model's files.
	Location string
	// Limits are parameters of the model: LOAD_TIMEOUT_SECONDS bounds each call.
	Limits map[string]string
}

// AgentAction is a step in the life of a model.
type AgentAction uint8

// The actions, with the numbers of the C interface.
const (
	AgentLoad AgentAction = iota
	AgentLoadComplete
	AgentLoadFail
	AgentUnload
	AgentUnloadComplete
)

// String is the name of the C interface.
func (a AgentAction) String() string {
	names := [...]string{"LOAD", "LOAD_COMPLETE", "LOAD_FAIL", "UNLOAD", "UNLOAD_COMPLETE"}
	if int(a) >= len(names) {
		return "<invalid action>"
	}
	return "TRITONREPOAGENT_ACTION_" + names[a]
}

// AgentSession is one load of a model, up to its unload, as an agent knows it. Its
// methods are called one at a time.
type AgentSession interface {
	// Act tells the agent of an action, in bounded time.
	Act(ctx context.Context, a AgentAction) error
	// Location is where the model's files are by what the agent has said.
	Location() string
	// End tells the agent that it will hear no more of this, and removes the
	// directories that it was lent.
	End(ctx context.Context) error
}

// Cache keeps values under keys. Its methods may be called concurrently.
type Cache interface {
	// Lookup returns the value of a key, nil where there is none. It returns when ctx
	// ends at the latest. The value is borrowed until release is called. An error with
	// the code Unavailable says that the cache does not answer, others are its own.
	Lookup(ctx context.Context, key string) (value []byte, release func(), err error)
	// Insert keeps a value, which nobody changes from now on. What is there already is
	// an error with the code AlreadyExists.
	Insert(ctx context.Context, key string, value []byte) error
	// Close ends the cache. It may be called more than once.
	Close() error
}
