package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// Chain is the agents of one load of a model that are libraries, in the order of the
// configuration, from the load up to the unload. What they say against anything but
// the load is logged: the model is loaded, or goes, all the same. A nil Chain has none.
type Chain struct {
	set       *Set
	model     string
	directory string

	mu    sync.Mutex // held while agents are told
	links []link
	state chainState
}

type link struct {
	name    string
	used    *used
	session backend.AgentSession
}

// chainState says what the agents were told last.
type chainState uint8

const (
	loading chainState = iota
	loaded
	unloading
	ended
)

// Directory is where the model is to be loaded from.
func (c *Chain) Directory() string { return c.directory }

// Libraries reports whether there are any.
func (c *Chain) Libraries() bool { return c != nil && len(c.links) > 0 }

// add tells one more agent of the load, and reports whether it has moved the model.
func (c *Chain) add(ctx context.Context, m *Model, a modelconfig.Agent, config []byte) (moved bool, err error) {
	u, err := c.set.take(a.Name)
	if err != nil {
		return false, err
	}
	told := backend.AgentModel{Name: m.Name, Config: config, Location: c.directory, Limits: m.Limits}
	for _, key := range slices.Sorted(maps.Keys(a.Parameters)) {
		told.Parameters = append(told.Parameters, [2]string{key, a.Parameters[key]})
	}
	session, err := u.agent.Begin(ctx, told)
	if err != nil {
		c.set.give(a.Name, u)
		return false, err
	}
	l := link{a.Name, u, session}
	if err := session.Act(ctx, backend.AgentLoad); err != nil {
		c.tell(l, backend.AgentLoadFail)
		c.finish(l)
		return false, err
	}
	c.links = append(c.links, l)
	moved = session.Location() != c.directory
	c.directory = session.Location()
	return moved, nil
}

// tell tells an agent what cannot fail any more. Its time is bounded by the agent.
func (c *Chain) tell(l link, a backend.AgentAction) {
	if err := l.session.Act(context.Background(), a); err != nil {
		c.set.log.Error(fmt.Sprintf("Agent model returns error on %s: %v", a, err), "model", c.model, "agent", l.name)
	}
}

func (c *Chain) finish(l link) {
	if err := l.session.End(context.Background()); err != nil {
		c.set.log.Error("a repository agent ends a model with an error", "model", c.model, "agent", l.name, "error", err)
	}
	c.set.give(l.name, l.used)
}

// backwardLocked tells all agents, the last one first.
func (c *Chain) backwardLocked(a backend.AgentAction) {
	for _, l := range slices.Backward(c.links) {
		c.tell(l, a)
	}
}

// Complete tells the agents that the model serves.
func (c *Chain) Complete() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == loading {
		c.state = loaded
		c.backwardLocked(backend.AgentLoadComplete)
	}
}

// Unload tells the agents that the model serves no longer. It may be called again.
func (c *Chain) Unload() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unloadLocked()
}

func (c *Chain) unloadLocked() {
	if c.state == loaded {
		c.state = unloading
		for _, l := range c.links {
			c.tell(l, backend.AgentUnload)
		}
	}
}

// End tells the agents that the load has failed, or that the model is gone, and that
// they hear no more of it. It may be called again.
func (c *Chain) End() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case ended:
		return
	case loading:
		c.backwardLocked(backend.AgentLoadFail)
	default:
		c.unloadLocked()
		c.backwardLocked(backend.AgentUnloadComplete)
	}
	c.state = ended
	for _, l := range c.links {
		c.finish(l)
	}
}
