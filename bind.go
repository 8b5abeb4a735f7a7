package neso

import (
	"context"
	"errors"

	"github.com/nesoserve/neso/backend"
)

// BindBackend serves one version of a model with a backend of its own, from no
// repository. config is the model configuration as JSON, in the form of the
// config endpoint; the complete one is returned. Binding a version again swaps
// it in without downtime. The server must be started. The caller closes b after
// UnbindBackend or Close.
func (s *Server) BindBackend(ctx context.Context, name string, version int64, config []byte, b backend.Backend) ([]byte, error) {
	if s.running == nil || s.running.engine == nil {
		return nil, ErrNotRunning
	}
	return s.running.engine.Bind(ctx, name, version, config, b)
}

// UnbindBackend takes a bound version out of service and returns once no new
// request can reach it. With a backend, only what that one serves.
func (s *Server) UnbindBackend(ctx context.Context, name string, version int64, of backend.Backend) error {
	if s.running == nil || s.running.engine == nil {
		return ErrNotRunning
	}
	return s.running.engine.Unbind(ctx, name, version, of)
}

// Host is what a backend outside of the server's own may ask of it; nil before
// Start.
func (s *Server) Host() backend.Host {
	if s.running == nil || s.running.engine == nil {
		return nil
	}
	return s.running.engine.Host()
}

// Addresses are those that the server listens on: "http", "grpc", "metrics",
// "sagemaker" and "vertex-ai".
func (s *Server) Addresses() map[string]string {
	all := map[string]string{}
	if s.running == nil {
		return all
	}
	for name, key := range map[string]string{
		"HTTPService": "http", "GRPCInferenceService": "grpc", "Metrics Service": "metrics",
		"Sagemaker HTTPService": "sagemaker", "Vertex AI HTTPService": "vertex-ai",
	} {
		if l := s.running.listeners[name]; l != nil {
			all[key] = l.Addr().String()
			if l.Addr().Network() == "unix" {
				all[key] = "unix:" + all[key]
			}
		}
	}
	return all
}

// bindEarly serves what was bound before Start.
func (s *Server) bindEarly(ctx context.Context) error {
	var failed []error
	for _, b := range s.early {
		failed = append(failed, s.bindFunc(ctx, b.model, b.function))
	}
	return errors.Join(failed...)
}
