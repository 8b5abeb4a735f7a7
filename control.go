package neso

import (
	"context"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
)

// The questions and orders of the protocol, for a program that has the server. The
// documents are those of the HTTP API, as JSON; errors are *backend.Error with the
// code and text that a client would see, or [ErrNotRunning]. Where a version is asked for
// by its number, a name such as "digits@canary" with the number -1 asks by its label.

// Live returns nil, or why the server is not live: Unavailable while it stops.
func (s *Server) Live() error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Live()
}

// Ready returns nil, or why the server is not ready: Unavailable while it stops,
// InvalidArg for a model that is not ready.
func (s *Server) Ready() error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Ready()
}

// ModelReady returns nil, or why the version of a model, -1 for the latest, is not ready.
func (s *Server) ModelReady(name string, version int64) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	if name, version, err = e.Numbered(name, version); err != nil {
		return err
	}
	return e.ModelReady(name, version)
}

// Metadata describes the server.
func (s *Server) Metadata() ([]byte, error) {
	if _, err := s.started(); err != nil {
		return nil, err
	}
	return s.running.api.Metadata(), nil
}

// ModelMetadata describes a model's inputs and outputs; version -1 is the latest,
// and all ready versions are listed then.
func (s *Server) ModelMetadata(name string, version int64) ([]byte, error) {
	e, err := s.started()
	if err != nil {
		return nil, err
	}
	if name, version, err = e.Numbered(name, version); err != nil {
		return nil, err
	}
	return s.running.api.ModelMetadata(name, version)
}

// Statistics returns what a model has counted, or all models for the empty name;
// version -1 means all versions that are ready.
func (s *Server) Statistics(name string, version int64) ([]byte, error) {
	e, err := s.started()
	if err != nil {
		return nil, err
	}
	if name, version, err = e.Numbered(name, version); err != nil {
		return nil, err
	}
	return s.running.api.Statistics(name, version)
}

// Rollout returns the rules for the versions of a model, and what has happened under
// them.
func (s *Server) Rollout(model string) ([]byte, error) {
	e, err := s.started()
	if err != nil {
		return nil, err
	}
	return e.RoutingJSON(model)
}

// SetRollout changes the rules for the versions of a model, in control mode "explicit"
// only: all at once, each request sees either the old ones or the new ones. change is
// YAML or JSON with the sections of rollout.yaml; one that it lacks stays as it is, and
// null takes one away.
func (s *Server) SetRollout(ctx context.Context, model string, change []byte) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Route(ctx, model, change)
}

// Index lists the models of all repositories, with their states; ready leaves out
// those that are not ready.
func (s *Server) Index(ready bool) ([]byte, error) {
	if _, err := s.started(); err != nil {
		return nil, err
	}
	return s.running.api.Index(ready)
}

// Load loads or reloads a model, in control mode "explicit" only. config is its
// configuration as JSON, empty for that of the repository; files maps paths such as
// "1/model.onnx" to what they hold, in place of the repository's. It returns when
// the model is ready, or has failed.
func (s *Server) Load(ctx context.Context, name, config string, files map[string][]byte) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Load(ctx, name, config, files)
}

// Unload unloads a model, in control mode "explicit" only, and returns before its
// requests have ended; with dependents also the models that only it uses. A model
// that is not known is no error.
func (s *Server) Unload(ctx context.Context, name string, dependents bool) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Unload(ctx, name, dependents)
}

// RegisterRepository adds a model repository, in control mode "explicit" only. Names
// maps sub-directories to the names that their models are served by; without any
// they have their own. It loads nothing.
func (s *Server) RegisterRepository(path string, names map[string]string) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.RegisterNames(path, names)
}

// UnregisterRepository takes back what RegisterRepository did; what is loaded stays.
func (s *Server) UnregisterRepository(path string) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Unregister(path)
}

// Poll takes the changes of the repositories at once, in control mode "poll" only.
func (s *Server) Poll(ctx context.Context) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	return e.Poll(ctx)
}

// Serves returns nil if a request for the version of a model, -1 for the latest,
// would be taken now, else why not. It takes nothing.
func (s *Server) Serves(name string, version int64) error {
	e, err := s.started()
	if err != nil {
		return err
	}
	if name, version, err = e.Numbered(name, version); err != nil {
		return err
	}
	return e.Serves(name, version)
}

// Labels returns the class labels of a model's output, nil where it has none.
func (s *Server) Labels(model string, version int64, output string) []string {
	e, err := s.started()
	if err != nil {
		return nil
	}
	if model, version, err = e.Numbered(model, version); err != nil {
		return nil
	}
	return e.Labels(model, version, output)
}

// document answers what a model asks of the server.
func (s *Server) document(q backend.Question) ([]byte, error) {
	switch q.About {
	case backend.AboutServer:
		return s.Metadata()
	case backend.AboutIndex, backend.AboutReadyIndex:
		return s.Index(q.About == backend.AboutReadyIndex)
	case backend.AboutModel:
		return s.ModelMetadata(q.Model, q.Version)
	case backend.AboutConfig:
		return s.ModelConfig(q.Model, q.Version)
	case backend.AboutStatistics:
		return s.Statistics(q.Model, q.Version)
	default:
		return nil, backend.Errorf(backend.InvalidArg, "the server is asked about '%s', which it does not know", q.About)
	}
}

func (s *Server) started() (*engine.Engine, error) {
	if s.running == nil || s.running.engine == nil || s.running.api == nil {
		return nil, ErrNotRunning
	}
	return s.running.engine, nil
}
