package native

import (
	"context"
	"debug/elf"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
)

// attributesEntry is the function by which a library says what it prefers.
const attributesEntry = "TRITONBACKEND_GetBackendAttribute"

// preferred remembers what libraries prefer: a library is opened in a process that
// ends then, since the process of a model needs to know its instances first.
type preferred struct {
	mu  sync.Mutex
	all map[string]*preference // by path
}

// preference is what one library prefers.
type preference struct {
	mu     sync.Mutex // held while the library is asked
	time   time.Time  // of the file
	size   int64
	groups []backend.PreferredGroup
}

// of returns the groups that the library of a model prefers, from ask for a file
// that was not asked before.
func (p *preferred) of(path string, ask func() ([]backend.PreferredGroup, error)) ([]backend.PreferredGroup, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.all == nil {
		p.all = map[string]*preference{}
	}
	one := p.all[path]
	if one == nil {
		one = &preference{}
		p.all[path] = one
	}
	p.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.time.Equal(info.ModTime()) && one.size == info.Size() {
		return slices.Clone(one.groups), nil
	}
	groups, err := ask()
	if err != nil {
		return nil, err
	}
	one.time, one.size, one.groups = info.ModTime(), info.Size(), groups
	return slices.Clone(groups), nil
}

// preferredFor is backend.Capabilities.PreferredFor.
func (d *driver) preferredFor(ctx context.Context, cfg *backend.Config) ([]backend.PreferredGroup, error) {
	lib, err := d.check(cfg)
	if err != nil {
		return nil, nil // Complete or Load says why
	}
	if !exports(lib.path, attributesEntry) {
		return nil, nil
	}
	return d.preferred.of(lib.path, func() ([]backend.PreferredGroup, error) {
		spec, err := d.spec(cfg, lib)
		if err != nil {
			return nil, err
		}
		s, err := supervise.Launch(ctx, spec)
		if err != nil {
			return nil, err
		}
		defer s.Stop()
		l := d.loadOf(cfg, lib, firstModel, false)
		l.Attributes = true
		loaded, err := load(ctx, s.Conn, l)
		return loaded.Preferred, err
	})
}

// exports reports whether a library has the function.
func exports(path, name string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF })
}
