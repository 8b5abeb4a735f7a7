package model

import (
	"context"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/responsecache"
)

// coalesceParameter, in the model's configuration, lets identical requests that
// are in flight at the same time share one execution.
const coalesceParameter = "coalesce_identical_requests"

// openCache makes what the model needs for the response cache, before its
// scheduler is made.
func (m *Model) openCache(ctx context.Context, o *Options) error {
	c := m.config
	coalesce, err := coalesces(c)
	if err != nil {
		return err
	}
	m.identity, m.steps = loadIdentity(ctx, o), o.StepIdentity
	if m.steps == nil {
		m.steps = func(string, int64) (responsecache.Identity, bool) { return responsecache.NewIdentity(), false }
	}
	store := o.Cache
	switch {
	case !c.ResponseCache:
		store = nil
	case c.Decoupled: // an ensemble with a decoupled step; others are refused
		m.logger.Warn("the response cache is not used for a decoupled ensemble", "model", c.Name)
		store = nil
	case store == nil:
		m.logger.Warn("the model asks for the response cache, and the server has none", "model", c.Name, "option", m.words.Name("cache-config"))
	}
	if store == nil && !coalesce {
		return nil
	}
	m.cache = &cache{
		store: store, allocator: o.Allocator, logger: m.logger,
		subject: responsecache.Subject{Name: c.Name, Version: m.version},
	}
	if coalesce {
		m.cache.flights = &flights{io: &m.io, all: map[flightKey]*flight{}}
	}
	if store != nil && store.Shared() {
		m.identity()
	}
	return nil
}

// loadIdentity returns what makes a load of a version different from others. In a
// store of this process it is any number that no other load has. In a store that
// servers share it is the content of configuration and files.
func loadIdentity(ctx context.Context, o *Options) func() responsecache.Identity {
	if o.Cache != nil && o.Cache.Shared() && o.BackendConfig.VersionDirectory != "" {
		ctx = context.WithoutCancel(ctx) // a step's may be asked for later
		return sync.OnceValue(func() responsecache.Identity {
			id, err := responsecache.ContentIdentity(ctx, o.Config.JSON(), o.BackendConfig.Directory, o.BackendConfig.VersionDirectory)
			if err != nil {
				return responsecache.NewIdentity()
			}
			return id
		})
	}
	id := responsecache.NewIdentity()
	return func() responsecache.Identity { return id }
}

func coalesces(c *modelconfig.Config) (bool, error) {
	switch v := c.Parameters[coalesceParameter]; v {
	case "", "false":
		return false, nil
	case "true":
	default:
		return false, backend.Errorf(backend.InvalidArg, "model '%s': parameter '%s' is '%s', expected true or false", c.Name, coalesceParameter,
			v)
	}
	switch {
	case c.Sequence != nil:
		return false, backend.Errorf(backend.InvalidArg, "model '%s': parameter '%s' does not go with sequence batching", c.Name,
			coalesceParameter)
	case c.Decoupled:
		return false, backend.Errorf(backend.InvalidArg, "model '%s': parameter '%s' does not go with decoupled responses", c.Name,
			coalesceParameter)
	case c.Dynamic != nil && c.Dynamic.PreserveOrdering:
		return false, backend.Errorf(backend.InvalidArg, "model '%s': parameter '%s' does not go with preserve_ordering", c.Name,
			coalesceParameter)
	}
	return true, nil
}
