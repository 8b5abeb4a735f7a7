package neso

import (
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/stats"
)

func (s *Server) engineOptions(r *running, config metrics.Config) engine.Options {
	return engine.Options{
		ID: s.ID, Repositories: s.ModelRepositories, RepositoryCache: s.RepositoryCacheDirectory, NoRepository: s.NoRepository || len(s.early) > 0, Backends: s.Backends, BackendDir: s.BackendDirectory, AgentDir: s.RepositoryAgentDirectory, BackendSettings: s.BackendSettings,
		ControlMode: s.ControlMode, Namespacing: s.ModelNamespacing, RequireManifest: s.RequireManifest, PollInterval: s.PollInterval, PollSettle: s.PollSettle, StartupModels: s.StartupModels, ExitOnError: !s.KeepGoing, DisableAutoComplete: s.DisableAutoComplete,
		StrictReadiness: !s.LooseReadiness, ModelConfigName: s.ModelConfigName, LoadThreads: s.LoadThreads, LoadRetries: s.LoadRetries,
		WarmupInStatistics: s.WarmupInStatistics, UncheckedOutputs: s.UncheckedOutputs, MaxQueuedBytes: s.MaxQueuedBytes, MaxQueuedRequests: s.MaxQueuedRequests, Cache: s.ResponseCache.Name, CacheSettings: s.ResponseCache.Settings,
		HangTimeout: s.HangTimeout, WatchInterval: s.WatchInterval, Allocator: r.pool, ReadableFiles: s.ReadableModelFiles, RefuseFiles: s.RefuseModelFiles, RefuseModels: s.refuseModelLoads(), Tracer: r.tracer, Logger: r.log, NewObserver: newObserver(config),
	}
}

// refuseModelLoads says whether models may not load and unload others. What is
// no word for it refuses.
func (s *Server) refuseModelLoads() bool {
	switch s.ModelLoads {
	case "":
		return s.AdminAddress != ""
	case "always":
		return false
	}
	return true
}

// newObserver returns what makes the summaries that config asks for.
func newObserver(config metrics.Config) func() stats.Observer {
	return func() stats.Observer {
		if s := metrics.NewSummaries(config); s != nil {
			return s
		}
		return nil // not a nil *Summaries, which would be an observer
	}
}

// models lists for the metrics the versions that are, or were, loaded.
func (r *running) models() []metrics.Model {
	all := r.engine.Numbers()
	models := make([]metrics.Model, len(all))
	for i, v := range all {
		summaries, _ := v.Observer.(*metrics.Summaries)
		models[i] = metrics.Model{Name: v.Name, Namespace: v.Namespace, Version: v.Version, Tags: v.Tags, Numbers: v.Numbers, LoadTime: v.LoadTime, Cached: v.Cached, Summaries: summaries, Stuck: v.Stuck, Hangs: v.Hangs}
	}
	return models
}

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
