package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
)

// backends opens each backend when the first model needs it.
type backends struct {
	drivers  map[string]*driver
	host     backend.Host
	settings func(string) backend.Settings
	order    []*driver // as opened
	mu       sync.Mutex
}

// driver is one backend. mu is held while it is opened, so that models that
// need it at the same time wait for one attempt; it guards nothing else.
type driver struct {
	backend.Driver
	mu     sync.Mutex
	opened backend.Backend
}

func newBackends(o Options) *backends {
	b := &backends{drivers: map[string]*driver{}, host: o.Host, settings: o.Settings}
	for _, d := range o.Backends {
		b.drivers[d.Name] = &driver{Driver: d}
	}
	return b
}

// find returns the driver of a backend, or nil. A custom backend of the backend
// directory comes before a built-in one of the same name: somebody put it there.
//
// So does a library that the configuration names, and one of a name that no
// driver has; folders are those of the model.
func (b *backends) find(name, runtime string, folders []string) *driver {
	directory := ""
	if b.settings != nil {
		directory = b.settings(name).Directory
	}
	for _, d := range b.drivers {
		if d.Implements != nil && d.Implements(name, directory, runtime) {
			return d
		}
	}
	builtIn := b.drivers[name]
	own := builtIn != nil && !builtIn.Explains
	if own && runtime == "" {
		return builtIn
	}
	look := backend.Lookup{Backend: name, Runtime: runtime, Folders: folders, Directory: directory, BuiltIn: own}
	for _, d := range b.drivers {
		if d.Finds != nil && d.Finds(look) {
			return d
		}
	}
	return builtIn
}

// names are those that a configuration may have, sorted: one that runs libraries is
// asked for by theirs.
func (b *backends) names() []string {
	var names []string
	for name, d := range b.drivers {
		if d.Finds == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// driver returns what runs a backend's models, or nil.
func (b *backends) driver(name, runtime string, folders []string) *backend.Driver {
	if d := b.find(name, runtime, folders); d != nil {
		return &d.Driver
	}
	return nil
}

// get returns the open backend. An attempt that failed is made again for the
// next model: what was missing may have been installed meanwhile.
func (b *backends) get(ctx context.Context, draft *draft.Draft, folders []string) (backend.Backend, error) {
	d := b.find(draft.Backend(), draft.Runtime(), folders)
	if d == nil {
		return nil, draft.UnknownBackend(b.names())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened != nil {
		return d.opened, nil
	}
	settings := backend.Settings{}
	if b.settings != nil {
		settings = b.settings(d.Name)
		settings.Of = func(other string) map[string]string { return b.settings(other).Values }
	}
	opened, err := d.Open(ctx, b.host, settings)
	if err != nil {
		return nil, err
	}
	d.opened = opened
	b.mu.Lock()
	b.order = append(b.order, d)
	b.mu.Unlock()
	return opened, nil
}

// close closes the open backends, the last opened first.
func (b *backends) close() error {
	b.mu.Lock()
	order := b.order
	b.order = nil
	b.mu.Unlock()
	var failed []error
	for _, d := range slices.Backward(order) {
		failed = append(failed, d.opened.Close())
	}
	return errors.Join(failed...)
}
