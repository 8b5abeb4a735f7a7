package engine

import (
	"context"

	"github.com/nesoserve/neso/internal/responsecache"
)

// openCache opens the response cache that the options name.
func (e *Engine) openCache() error {
	if e.o.Cache == "" {
		return nil
	}
	store, err := responsecache.Open(context.Background(), responsecache.Options{
		Name: e.o.Cache, Settings: e.o.CacheSettings, Text: e.o.CacheText, Directory: e.o.CacheLibraries, Libraries: e.o.Libraries,
		Allocator: e.o.Allocator, Host: &host{e}, Logger: e.log, Words: e.o.Words,
	})
	e.cache = store
	return err
}

// closeCache gives the cache's memory back, once no model uses it any more.
func (e *Engine) closeCache() {
	if e.cache == nil {
		return
	}
	if err := e.cache.Close(); err != nil {
		e.log.Error("failed to close the response cache", "error", err)
	}
}

// CacheNumbers returns what reads the numbers of the response cache, or nil
// without one.
func (e *Engine) CacheNumbers() func() responsecache.Numbers {
	if e.cache == nil {
		return nil
	}
	return e.cache.Numbers
}
