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
	"github.com/nesoserve/neso/backend/native/host"
)

// attributesEntry is the function by which a library says what it prefers.
const attributesEntry = "TRITONBACKEND_GetBackendAttribute"

// attributesLimit is how long it may take to say so.
const attributesLimit = time.Minute

// preferred remembers what libraries prefer: a library is opened in a process that
// ends then, since the process of a model needs to know its instances first.
type preferred struct {
	mu  sync.Mutex
	all map[string]*preference // by path
}

// preference is what one library prefers.
type preference struct {
	mu       sync.Mutex // held while the library is asked
	time     time.Time  // of the file
	size     int64
	groups   []backend.PreferredGroup
	parallel bool
}

// of returns what the library of a model prefers, from ask for a file that was not
// asked before.
func (p *preferred) of(path string, ask func() (host.Loaded, error)) (groups []backend.PreferredGroup, parallel bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, err
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
		return slices.Clone(one.groups), one.parallel, nil
	}
	l, err := ask()
	if err != nil {
		return nil, false, err
	}
	one.time, one.size, one.groups, one.parallel = info.ModTime(), info.Size(), l.Preferred, l.Parallel
	return slices.Clone(one.groups), one.parallel, nil
}

// preferredFor is backend.Capabilities.PreferredFor.
func (d *driver) preferredFor(ctx context.Context, cfg *backend.Config) ([]backend.PreferredGroup, error) {
	groups, _, err := d.attributes(ctx, cfg)
	return groups, err
}

// parallel is backend.Capabilities.Parallel. A library that cannot be asked is found out
// when it is loaded.
func (d *driver) parallel(cfg *backend.Config) bool {
	if len(cfg.Instances) < 2 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), attributesLimit)
	defer cancel()
	_, parallel, _ := d.attributes(ctx, cfg)
	return parallel
}

// attributes returns what the library of a model says of itself.
func (d *driver) attributes(ctx context.Context, cfg *backend.Config) (groups []backend.PreferredGroup, parallel bool, err error) {
	lib, err := d.check(cfg)
	if err != nil {
		return nil, false, nil // Complete or Load says why
	}
	if !exports(lib.path, attributesEntry) {
		return nil, false, nil
	}
	return d.preferred.of(lib.path, func() (host.Loaded, error) {
		spec, err := d.spec(cfg, lib)
		if err != nil {
			return host.Loaded{}, err
		}
		s, err := supervise.Launch(ctx, spec)
		if err != nil {
			return host.Loaded{}, err
		}
		defer s.Stop()
		l := d.loadOf(cfg, lib, firstModel, false)
		l.Attributes = true
		return load(ctx, s.Conn, l)
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
