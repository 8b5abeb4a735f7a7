package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/tracing"
)

func (s *Server) metadata() []byte {
	m := s.engine.Metadata()
	return jsonwire.AppendServerMetadata(nil, m.Name, m.Version, m.Extensions)
}

func (s *Server) modelMetadata(ctx context.Context, name string, version int64) ([]byte, error) {
	cfg, versions, err := s.engine.Describe(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return jsonwire.AppendModelMetadata(nil, cfg, versions), nil
}

func (s *Server) modelConfig(ctx context.Context, name string, version int64) ([]byte, error) {
	cfg, _, err := s.engine.Describe(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return cfg.JSON(), nil
}

func (s *Server) statistics(caller *auth.Caller, name string, version int64) ([]byte, error) {
	all, err := s.engine.Statistics(name, version)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(v engine.VersionStats) bool { return !caller.Sees(v.Name) })
	b := jsonwire.BeginStatistics(nil)
	for i := range all {
		b = jsonwire.AppendStatistics(b, i, all[i].Name, all[i].Version, all[i].Stats.Snapshot(), all[i].Memory())
	}
	return jsonwire.EndStatistics(b), nil
}

func (s *Server) index(caller *auth.Caller, body []byte) ([]byte, error) {
	ready, err := jsonwire.DecodeIndex(body)
	if err != nil {
		return nil, err
	}
	entries, fault := s.engine.Index(ready)
	if fault != nil {
		return nil, fault
	}
	entries = slices.DeleteFunc(entries, func(e engine.IndexEntry) bool { return !caller.Sees(e.Name) })
	b := []byte{'['}
	for i := range entries {
		e := &entries[i]
		b = jsonwire.AppendIndexEntry(b, i, e.Name, e.Version, e.State, e.Reason)
	}
	return append(b, ']'), nil
}

var errRepositoryName = backend.Errorf(backend.Unsupported, "'repository_name' specification is not supported")

func (s *Server) load(ctx context.Context, t target, body []byte) error {
	if t.repository != "" {
		return errRepositoryName
	}
	config, files, err := jsonwire.DecodeLoad(body)
	if err != nil {
		return err
	}
	return s.engine.Load(ctx, t.name, config, files)
}

func (s *Server) unload(ctx context.Context, t target, body []byte) error {
	if t.repository != "" {
		return errRepositoryName
	}
	dependents, err := jsonwire.DecodeUnload(body)
	if err != nil {
		return err
	}
	return s.engine.Unload(ctx, t.name, dependents)
}

// rollout shows the rules for the versions of a model and what has happened under them,
// after changing them when there is a body.
func (s *Server) rollout(ctx context.Context, name string, body []byte) ([]byte, error) {
	if body != nil {
		if err := s.engine.Route(ctx, name, body); err != nil {
			return nil, err
		}
	}
	return s.engine.RoutingJSON(name)
}

// logging shows the log settings, after changing them when there is a body.
func (s *Server) logging(body []byte) ([]byte, error) {
	if s.o.Log == nil {
		return nil, backend.Errorf(backend.Unsupported, "the server was started without the logging extension")
	}
	settings := s.o.Log.Settings()
	if body != nil {
		change, err := jsonwire.DecodeLogging(body)
		if err != nil {
			return nil, err
		}
		change.Apply(&settings)
		if err := s.o.Log.Set(settings); err != nil {
			// Over HTTP, and not over gRPC, Triton calls the field as its option.
			return nil, &backend.Error{Code: backend.Unavailable, Message: strings.Replace(err.Error(), " log_format,", " --log_format,", 1)}
		}
	}
	return appendLogging(settings), nil
}

// trace shows the trace settings of the server or of a model, after changing
// them when there is a body.
func (s *Server) trace(name string, body []byte) ([]byte, error) {
	var change tracing.Change
	if body != nil {
		if _, err := s.engine.TraceSettings(name, change); err != nil {
			return nil, err // an unknown model is said first
		}
		var err *backend.Error
		if change, err = jsonwire.DecodeTrace(body); err != nil {
			return nil, err
		}
	}
	fields, err := s.engine.TraceSettings(name, change)
	if err != nil {
		return nil, err
	}
	return jsonwire.AppendTrace(nil, fields), nil
}

func appendLogging(l logging.Settings) []byte {
	return jsonwire.AppendLogging(nil, l)
}

// join answers where another process can bind models to this server, and with
// which token.
func (s *Server) join() ([]byte, error) {
	if s.o.Join == nil {
		return nil, backend.Errorf(backend.Unsupported, "binding models to this server is not allowed. Start it with '%s=true' to enable.",
			s.o.Words.Name("allow-bind"))
	}
	socket, token, err := s.o.Join()
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "%v", err)
	}
	return json.Marshal(map[string]string{"socket": socket, "token": token})
}
