package neso

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/ondemand"
	"github.com/nesoserve/neso/internal/setting"
)

// engineOptions hands the settings of the server to who obeys them: each one to the
// field of its name, below what is there under another name or means something else.
func (s *Server) engineOptions(r *running, config metrics.Config) engine.Options {
	var o engine.Options
	handOn(reflect.ValueOf(&o).Elem(), reflect.ValueOf(s).Elem())
	o.Words, o.NewObserver = s.words(), newObserver(config)
	o.AgentDir, o.BackendDir, o.CacheDir = s.RepositoryAgentDirectory, s.BackendDirectory, s.RepositoryCacheDirectory
	o.OnDemand = ondemand.Settings(s.OnDemand)
	o.Repositories, o.NoRepository = s.ModelRepositories, s.NoRepository || len(s.early) > 0
	o.ConfigName, o.Readable, o.Namespacing = s.ModelConfigName, s.ReadableModelFiles, s.ModelNamespacing
	o.ExitOnError, o.StrictReadiness = !s.KeepGoing, !s.LooseReadiness
	o.Cache, o.CacheSettings, o.CacheLibraries = s.ResponseCache.Name, s.ResponseCache.Settings, s.ResponseCache.Directory
	o.CacheText, o.Followers = s.ResponseCache.Text, &r.followers
	o.RefuseFiles, o.RefuseModels = s.RefuseModelFiles, s.refuseModelLoads()
	o.Customs, o.Documents, o.Allocator, o.Tracer, o.Logger = r.customs, s.document, r.pool, r.tracer, r.log
	return o
}

// handOn sets the fields of to, and of the structs that it embeds, to those of from
// that have the same name and a type that fits.
func handOn(to, from reflect.Value) {
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if field.Anonymous {
			handOn(to.Field(i), from)
		} else if value := from.FieldByName(field.Name); value.IsValid() && value.Type().AssignableTo(field.Type) {
			to.Field(i).Set(value)
		}
	}
}

// words are what messages call settings.
func (s *Server) words() setting.Words { return setting.Words(s.OptionPrefix) }

// refuseModelLoads says whether models may not load and unload others.
func (s *Server) refuseModelLoads() bool {
	return s.ModelLoads == "never" || s.ModelLoads == "" && s.AdminAddress != ""
}

// check refuses settings that have no meaning.
func (s *Server) check() error {
	for _, option := range []struct {
		name, value string
		words       [2]string
	}{
		{"ModelLoads", s.ModelLoads, [2]string{"always", "never"}},
		{"HTTP.Transport", s.HTTP.Transport, transports},
		{"GRPC.Transport", s.GRPC.Transport, transports},
	} {
		if option.value != "" && !slices.Contains(option.words[:], option.value) {
			return fmt.Errorf("neso: unknown %s %q, expected %q or %q", option.name, option.value, option.words[0], option.words[1])
		}
	}
	return nil
}

// transports are those of our own, and those of the libraries.
var transports = [2]string{"neso", transportLibrary}

const transportLibrary = "library"

// ModelConfig returns the completed configuration of a model that serves, in the
// JSON form of the config endpoint; version -1 is the latest.
func (s *Server) ModelConfig(name string, version int64) ([]byte, error) {
	if s.running == nil || s.running.engine == nil {
		return nil, ErrNotRunning
	}
	name, version, err := s.running.engine.Numbered(name, version)
	if err != nil {
		return nil, err
	}
	config, _, err := s.running.engine.Model(name, version)
	if err != nil {
		return nil, err
	}
	return config.JSON(), nil
}

// ModelStatus is one line of the repository index.
type ModelStatus struct {
	Name, Version string
	State         string // "READY", "UNAVAILABLE", "LOADING", "UNLOADING", or "" for a model never loaded
	Reason        string
}

// Models lists what is known of the models of all repositories.
func (s *Server) Models() []ModelStatus {
	if s.running == nil || s.running.engine == nil {
		return nil
	}
	index, err := s.running.engine.Index(false)
	if err != nil {
		return nil
	}
	list := make([]ModelStatus, len(index))
	for i, e := range index {
		list[i] = ModelStatus(e)
	}
	return list
}
