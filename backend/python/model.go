package python

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/modelfile"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/tensor"
)

// model is one loaded version.
type model struct {
	driver  *driver
	cfg     backend.Config
	command process.Command
	arena   *segment.Arena
	names   [2][]string // of inputs and outputs

	mu        sync.Mutex
	instances map[*instance]struct{}
}

// instance is one worker.
type instance struct {
	*supervise.Worker
	model *model
	probe *probe
	log   *slog.Logger
}

// check refuses what no worker need be started for. It returns the file that
// holds the model's class.
func (d *driver) check(cfg *backend.Config) (path string, err error) {
	if err := d.checkParameters(cfg); err != nil {
		return "", err
	}
	if d.hosted != nil {
		if cfg.Decoupled {
			return "", backend.Errorf(backend.InvalidArg,
				"model '%s' is decoupled, which the %s backend does not support: its models give one response", cfg.Name, d.hosted.Name)
		}
		return d.hosted.Check(cfg, &d.server)
	}
	if folder := d.customFolder(cfg); folder != "" {
		path = filepath.Join(folder, modelFile)
	} else {
		name := cfg.Filename
		if name == "" {
			name = modelFile
		}
		if !strings.HasSuffix(name, ".py") {
			return "", backend.Errorf(backend.Internal, "Model name must end with '.py'. Model name is \"%s\".", name)
		}
		if path, err = modelfile.Path(cfg, name); err != nil {
			return "", err
		}
	}
	if !isFile(path) {
		return "", backend.Errorf(backend.Unavailable, "Python model file not found in '%s'", path)
	}
	return path, nil
}

// Load implements backend.Backend.
func (d *driver) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	if _, err := d.check(&cfg); err != nil {
		return nil, err
	}
	command, err := d.command(&cfg)
	if err != nil {
		return nil, err
	}
	var small tensor.Allocator
	if d.host != nil {
		small = d.host.Allocator()
	}
	m := &model{
		driver: d, cfg: cfg, command: command, arena: segment.NewArena(small, segment.DefaultInlineLimit, 0),
		instances: map[*instance]struct{}{},
	}
	for _, list := range [][]backend.IO{cfg.Inputs, cfg.BatchInputs} {
		for i := range list {
			m.names[0] = append(m.names[0], list[i].Name)
		}
	}
	for _, io := range cfg.Outputs {
		m.names[1] = append(m.names[1], io.Name)
	}
	return m, nil
}

// spec says how to start the worker of an instance of the model.
func (d *driver) spec(cfg *backend.Config, command process.Command, instance string) supervise.Spec {
	limit, _ := limitOf(cfg, d.settings.limit) // checked before
	load, _ := limits.LoadLimitOf(cfg.Parameters, d.server.Values)
	return supervise.Spec{
		Launcher: d.launcher, Command: command, Name: instance, Host: d.host,
		Logger:       d.log.With(slog.String("model", cfg.Name), slog.String("instance", instance)),
		HelloTimeout: d.settings.stubTimeout, Finalize: d.finalize, Grace: d.grace,
		Limit: limit, LoadLimit: load, Traces: true, Devices: d.devices,
	}
}

// Allocator implements backend.Model.
func (m *model) Allocator() tensor.Allocator { return m.arena }

// NewInstance implements backend.Model.
func (m *model) NewInstance(ctx context.Context, ic backend.InstanceConfig) (backend.Instance, error) {
	spec := m.driver.spec(&m.cfg, m.command, ic.Name)
	first := m.driver.warm.Take(&m.cfg, ic.Name)
	asks := &probe{}
	spec.Report, spec.Restarted, spec.GivenUp = ic.Report, ic.Restarted, ic.GivenUp
	setup := func(ctx context.Context, c *worker.Conn) (*worker.Instance, error) {
		if first == nil || c != first.Conn {
			if _, err := m.driver.loadModel(ctx, c, &m.cfg, false); err != nil {
				return nil, err
			}
		}
		init := wire.InitBody{
			Args: map[string]string{
				"model_config": string(m.cfg.JSON), "model_instance_kind": strings.TrimPrefix(ic.Kind, "KIND_"),
				"model_instance_name": ic.Name, "model_instance_device_id": strconv.Itoa(ic.Device),
				"model_repository": m.cfg.Directory, "model_version": strconv.FormatInt(m.cfg.Version, 10), "model_name": m.cfg.Name,
			},
			Config: m.cfg.JSON, Inputs: m.names[0], Outputs: m.names[1], Decoupled: m.cfg.Decoupled, Window: stream.Window,
			HostPolicy: ic.HostPolicy,
			Copied:     m.driver.hosted == nil && m.cfg.Parameters[paramWritable] == "yes",
		}
		var board *board.Slot
		if m.driver.hosted == nil && ic.Report != nil {
			board = c.NewBoard()
			init.Board = board.Offset()
		}
		answer, err := c.Load(ctx, wire.KindInit, 0, init)
		if err != nil {
			return nil, modelError(spec.Logger, "initialize failed", err)
		}
		if err := asks.has(c, answer); err != nil {
			return nil, err
		}
		return c.Attach(worker.Instance{
			Name: ic.Name, Board: board, Caller: backend.Caller{
				Model: m.cfg.Name, Version: m.cfg.Version, Of: len(m.cfg.Instances),
				Instance: ic.Name,
			}, Limit: spec.Limit, Tables: wire.Tables{Inputs: m.names[0], Outputs: m.names[1]},
			Decoupled: m.cfg.Decoupled, Window: true, Arena: m.arena, InlineLimit: segment.DefaultInlineLimit,
			TakesDevice: takesDevice(&m.cfg),
			Gather:      m.driver.hosted != nil && m.cfg.MaxBatchSize > 0, Writable: !m.cfg.Iterative, Lent: m.driver.hosted == nil && !init.Copied,
		}), nil
	}
	w, err := supervise.Start(ctx, spec, first, setup)
	if err != nil {
		return nil, m.driver.explain(m.command.Path, err)
	}
	i := &instance{w, m, asks, spec.Logger}
	m.mu.Lock()
	m.instances[i] = struct{}{}
	m.mu.Unlock()
	return i, nil
}

// loadModel sends LOAD and returns the body of READY.
func (d *driver) loadModel(ctx context.Context, c *worker.Conn, cfg *backend.Config, complete bool) (json.RawMessage, error) {
	path, err := d.check(cfg)
	if err != nil {
		return nil, err
	}
	body := wire.LoadBody{
		ModelPath: path, ModelDirectory: cfg.Directory, VersionDirectory: cfg.VersionDirectory, Name: cfg.Name, Version: cfg.Version,
		Config: cfg.JSON, Complete: complete, Inputs: []string{}, Outputs: []string{}, InlineLimit: segment.DefaultInlineLimit,
	}
	if d.hosted != nil {
		body.Framework, body.Settings = d.hosted.Name, d.server.Values
	}
	answer, err := c.Load(ctx, wire.KindLoad, 0, body)
	if err != nil {
		return nil, modelError(d.log.With(slog.String("model", cfg.Name)), "model could not be imported", err)
	}
	return answer, nil
}

// modelError turns what the model's own code raised into the error of the
// load; the whole traceback goes to the log.
func modelError(log *slog.Logger, what string, err error) error {
	var failed *worker.CallError
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Traceback == "" { // the text says it all
		return &backend.Error{Code: failed.Code, Message: failed.Message}
	}
	log.Error(what, //nolint:sloglint // the callers give constants
		slog.String("error", failed.Message), logging.Block("traceback", failed.Traceback))
	return &backend.Error{Code: backend.Internal, Message: failed.Message}
}

// explain adds what to do when the interpreter lacks numpy.
func (d *driver) explain(python string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "No module named 'numpy'") {
		return err
	}
	return backend.Errorf(backend.Internal, "Python workers need numpy: run '%s -m pip install numpy'. %v", python, err)
}

// Ready implements backend.Model: all workers live, and the models that have an
// is_ready say that they are.
func (m *model) Ready() error {
	m.mu.Lock()
	instances := slices.Collect(maps.Keys(m.instances))
	m.mu.Unlock()
	var asked sync.WaitGroup
	failed := make([]error, len(instances))
	for k, i := range instances {
		if failed[k] = i.Ready(); failed[k] == nil && i.probe.asks() {
			asked.Go(func() { failed[k] = i.probe.ready(i.log) })
		}
	}
	asked.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// Close implements backend.Model.
func (m *model) Close() error {
	m.arena.Close()
	return nil
}

// Close implements backend.Instance.
func (i *instance) Close() error {
	i.model.mu.Lock()
	delete(i.model.instances, i)
	i.model.mu.Unlock()
	return i.Worker.Close()
}
