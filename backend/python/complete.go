package python

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
)

// warmFor is how long a worker that has completed a configuration waits for
// its model to be loaded.
const warmFor = time.Minute

// warmKey names the version that a warm worker has imported.
type warmKey struct {
	name, directory, file string
	version               int64
}

func keyOf(cfg *backend.Config) warmKey {
	return warmKey{cfg.Name, cfg.VersionDirectory, cfg.Filename, cfg.Version}
}

// warmSession is a worker that has imported a model and serves no instance yet.
type warmSession struct {
	session *worker.Session
	command worker.Command
	expire  *time.Timer
}

func (w *warmSession) stop() {
	w.expire.Stop()
	w.session.Stop()
}

// Complete implements backend.Backend. The worker that ran
// auto_complete_config goes on to serve the first instance.
func (d *driver) Complete(ctx context.Context, cfg backend.Config) ([]byte, error) {
	if _, err := d.check(&cfg); err != nil {
		return nil, err
	}
	command, err := d.command(&cfg)
	if err != nil {
		return nil, err
	}
	name := cfg.Name + "_0_0"
	if len(cfg.Instances) > 0 {
		name = cfg.Instances[0].Name
	}
	s, err := worker.Launch(ctx, d.spec(&cfg, command, name))
	if err != nil {
		return nil, d.explain(command.Path, err)
	}
	answer, err := d.loadModel(ctx, s.Conn, &cfg, true)
	if err != nil {
		s.Kill()
		return nil, err
	}
	var body struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		s.Kill()
		return nil, backend.Errorf(backend.Internal, "auto_complete_config of model '%s': %v", cfg.Name, err)
	}
	d.keepWarm(keyOf(&cfg), &warmSession{session: s, command: command})
	if len(body.Config) == 0 || bytes.Equal(body.Config, []byte("null")) {
		return nil, nil
	}
	return body.Config, nil
}

// keepWarm keeps the worker for the load that should follow.
func (d *driver) keepWarm(key warmKey, w *warmSession) {
	d.mu.Lock()
	old := d.warm[key]
	closed := d.closed
	if !closed {
		w.expire = time.AfterFunc(warmFor, func() { d.expire(key, w) })
		d.warm[key] = w
	}
	d.mu.Unlock()
	if closed {
		w.session.Kill()
	}
	if old != nil {
		old.stop()
	}
}

func (d *driver) expire(key warmKey, w *warmSession) {
	d.mu.Lock()
	mine := d.warm[key] == w
	if mine {
		delete(d.warm, key)
	}
	d.mu.Unlock()
	if mine {
		w.session.Stop()
	}
}

// takeWarm returns the warm worker of the version if it was started in the name
// of this instance, or nil.
func (d *driver) takeWarm(cfg *backend.Config, instance string) *worker.Session {
	key := keyOf(cfg)
	d.mu.Lock()
	w := d.warm[key]
	if w != nil && w.session.Name() != instance {
		w = nil
	}
	if w != nil {
		delete(d.warm, key)
	}
	d.mu.Unlock()
	if w == nil {
		return nil
	}
	w.expire.Stop()
	if w.session.Conn.Err() != nil { // it died meanwhile
		w.session.Kill()
		return nil
	}
	return w.session
}
