package neso

import (
	"fmt"
	"slices"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/instance"
	"github.com/nesoserve/neso/internal/lifecycle"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/repository"
)

// engineOptions hands each field of the server to whose settings it is one of.
func (s *Server) engineOptions(r *running, config metrics.Config) engine.Options {
	return engine.Options{
		LoadSettings: lifecycle.LoadSettings{
			ServerSettings: model.ServerSettings{
				Settings:           instance.Settings{HangTimeout: s.HangTimeout},
				WarmupInStatistics: s.WarmupInStatistics, StrictOutputs: s.StrictOutputs, HostPolicies: s.HostPolicies,
				HoldRequests: s.HoldRequests, HoldBacklog: s.HoldBacklog,
			},
			DisableAutoComplete: s.DisableAutoComplete, AgentDir: s.RepositoryAgentDirectory,
			LoadThreads: s.LoadThreads, LoadRetries: s.LoadRetries, NewObserver: newObserver(config),
		},
		Settings: repository.Settings{
			ConfigName: s.ModelConfigName, Readable: s.ReadableModelFiles, CacheDir: s.RepositoryCacheDirectory,
			Namespacing: s.ModelNamespacing, RequireManifest: s.RequireManifest,
		},
		ID: s.ID, Repositories: s.ModelRepositories, NoRepository: s.NoRepository || len(s.early) > 0,
		Backends: s.Backends, BackendDir: s.BackendDirectory, BackendSettings: s.BackendSettings,
		ControlMode: s.ControlMode, PollInterval: s.PollInterval, PollSettle: s.PollSettle, StartupModels: s.StartupModels,
		ExitOnError: !s.KeepGoing, StrictReadiness: !s.LooseReadiness, WatchInterval: s.WatchInterval,
		MaxQueuedBytes: s.MaxQueuedBytes, MaxQueuedRequests: s.MaxQueuedRequests,
		Cache: s.ResponseCache.Name, CacheSettings: s.ResponseCache.Settings,
		RefuseFiles: s.RefuseModelFiles, RefuseModels: s.refuseModelLoads(),
		Customs: r.customs, Allocator: r.pool, Tracer: r.tracer, Logger: r.log,
	}
}

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
