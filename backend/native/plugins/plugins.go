// Package plugins runs the libraries of a user's that are no backends: repository
// agents (package agents) and response caches (package caches).
package plugins

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/native/agents"
	"github.com/nesoserve/neso/backend/native/caches"
)

// libraries is a backend.Libraries.
type libraries struct{ options native.Options }

// New returns what runs them, as the libraries of backends are run.
func New(o native.Options) backend.Libraries { return libraries{o} }

// Agent implements backend.Libraries.
func (l libraries) Agent(lib backend.Library) (backend.Agent, error) {
	return agents.Open(l.options, lib)
}

// Cache implements backend.Libraries.
func (l libraries) Cache(ctx context.Context, lib backend.Library, config []byte) (backend.Cache, error) {
	return caches.Open(ctx, l.options, lib, config)
}
