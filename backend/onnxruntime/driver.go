package onnxruntime

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Options configure the backend; the zero value uses a library of the backend
// directory, the environment or the system.
type Options struct {
	// Interpreter returns the Python interpreter whose packages are searched for
	// the library; may be nil.
	Interpreter func() (string, error)
}

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{Name: Spec.Backend, Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
		set, err := parseSettings(s)
		if err != nil {
			return nil, err
		}
		return &driver{
			options: o, host: host, settings: set,
			environments: map[string]*environment{}, byName: map[string]*environment{}, ready: map[string]*readySession{},
		}, nil
	}}
}

// driver is the open backend: the libraries in use, and sessions that have
// completed a configuration and wait for the load.
type driver struct {
	options  Options
	host     backend.Host
	settings settings

	mu           sync.Mutex
	environments map[string]*environment // by path
	byName       map[string]*environment // by what the configuration names; "" is the default
	ready        map[string]*readySession
	closed       bool
	watch        watch
}

// settings are the --backend-config=onnxruntime,... values.
type settings struct {
	directory     string
	maxBatchSize  int // of models that can batch and do not say how much
	sharedThreads bool
	intra, inter  int // 0: the default
}

func parseSettings(s backend.Settings) (settings, error) {
	set := settings{directory: s.Directory, maxBatchSize: 4}
	number := func(key string, into *int) error {
		text, ok := s.Values[key]
		if !ok {
			return nil
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return backend.Errorf(backend.InvalidArg, "--backend-config=onnxruntime,%s=%s: expected a whole number", key, text)
		}
		*into = int(n)
		return nil
	}
	if err := errors.Join(number("default-max-batch-size", &set.maxBatchSize), number("intra_op_thread_count", &set.intra), number("inter_op_thread_count", &set.inter)); err != nil {
		return set, err
	}
	if text, ok := s.Values["enable-global-threadpool"]; ok {
		var err error
		if set.sharedThreads, err = parseBool(text); err != nil {
			return set, backend.Errorf(backend.InvalidArg, "--backend-config=onnxruntime,enable-global-threadpool: %v", err)
		}
	}
	return set, nil
}

// Capabilities: an instance runs one batch at a time, and wants it in one
// piece.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true}
}

// Close frees what no model uses any more.
func (d *driver) Close() error {
	d.mu.Lock()
	d.closed = true
	ready, environments := d.ready, d.environments
	d.ready, d.environments = nil, nil
	d.mu.Unlock()
	d.watch.close()
	for _, r := range ready {
		r.expire.Stop()
		r.session.drop()
	}
	for _, e := range environments {
		e.drop()
	}
	return nil
}

// readyFor is how long a session that has completed a configuration waits for
// the load of its model.
const readyFor = time.Minute

type readySession struct {
	session *session
	expire  *time.Timer
}

// keepReady keeps the session for the load that should follow.
func (d *driver) keepReady(key string, s *session) {
	r := &readySession{session: s}
	d.mu.Lock()
	old, closed := d.ready[key], d.closed
	if !closed {
		r.expire = time.AfterFunc(readyFor, func() {
			if d.takeReady(key, r) != nil {
				s.drop()
			}
		})
		d.ready[key] = r
	}
	d.mu.Unlock()
	if old != nil {
		old.expire.Stop()
		old.session.drop()
	}
	if closed {
		s.drop()
	}
}

// takeReady takes the session with the key out, only that of want unless nil.
func (d *driver) takeReady(key string, want *readySession) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.ready[key]
	if r == nil || want != nil && r != want {
		return nil
	}
	delete(d.ready, key)
	r.expire.Stop()
	return r.session
}
