package library

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// Opened holds what a backend has made of its libraries, A, one for each file;
// a library that was missing is searched again for the next model. The zero
// value is ready to use.
type Opened[A any] struct {
	mu     sync.Mutex
	byName map[string]A // by what a configuration names; "" is the default
	byPath map[string]A
}

// Get returns what open made of the library at p, or makes it.
func (o *Opened[A]) Get(s *Spec, p Locations, open func(*Library) (A, error)) (A, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := p.Named
	if key != "" {
		key = p.Base + "\x00" + key
	}
	if a, ok := o.byName[key]; ok {
		return a, nil
	}
	var none A
	lib, err := s.Open(p)
	if err != nil {
		return none, err
	}
	if o.byName == nil {
		o.byName, o.byPath = map[string]A{}, map[string]A{}
	}
	a, ok := o.byPath[lib.Path]
	if !ok {
		if a, err = open(lib); err != nil {
			return none, err
		}
		o.byPath[lib.Path] = a
	}
	o.byName[key] = a
	return a, nil
}

// Close forgets all and calls end for each.
func (o *Opened[A]) Close(end func(A)) {
	o.mu.Lock()
	all := o.byPath
	o.byName, o.byPath = nil, nil
	o.mu.Unlock()
	for _, a := range all {
		end(a)
	}
}

// OfModel returns the field of a configuration that names a library in the
// model's own directory, or "": such a library is code of the model.
func (s *Spec) OfModel(cfg *backend.Config) string {
	named := cfg.Parameters[s.Parameter]
	if named == "" {
		return ""
	}
	if filepath.IsAbs(named) {
		rel, err := filepath.Rel(cfg.Directory, named)
		if err != nil || !filepath.IsLocal(rel) {
			return ""
		}
	}
	return "parameters." + s.Parameter
}

// LocationsFor are where the library of a model is searched: cfg may name it with
// the parameter of the Spec, server has the settings, python is as in Locations. A nil cfg is one that names nothing.
func (s *Spec) LocationsFor(cfg *backend.Config, server backend.Settings, python func(option string) (string, error)) Locations {
	p := Locations{BackendDirectory: server.Directory, OptionPrefix: server.OptionPrefix, Getenv: os.Getenv}
	if python != nil {
		p.Python = func() (string, error) { return python(server.Option("python")) }
	}
	if cfg != nil {
		p.Named, p.Base = cfg.Parameters[s.Parameter], cfg.Directory
	}
	return p
}
