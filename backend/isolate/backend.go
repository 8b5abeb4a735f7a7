package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/processors"
)

// Param is the parameter of a model configuration that says where a model runs:
// "process", or "none" (the default), in the server's process.
const Param = "isolation"

// SettingOwnCode is the key of --backend-config that says where models run which
// bring code of their own, such as libraries of operators: "worker" (the
// default), or "server" for wherever the model says.
const SettingOwnCode = "own-code"

// Options say how workers are started.
type Options struct {
	// Binary is the neso command; "" refuses models that want to be isolated.
	Binary string
	// Arguments make it a worker; nil means `isolate`.
	Arguments []string
	// Env is added to the server's environment.
	Env []string
	// WorkerUser and WorkerEnvironment are those of package backend/python.
	WorkerUser        string
	WorkerEnvironment []string
	// Environment is the server's environment, of which workers get a part; nil is that
	// of this process.
	Environment []string
}

// Wrap returns a driver whose models run in workers if they say so, or their
// backend does and they do not object, and as before if not. The backend must
// answer within Execute unless the model is decoupled.
func Wrap(d backend.Driver, o Options) backend.Driver {
	open, check := d.Open, d.CheckParameter
	if o.Arguments == nil {
		o.Arguments = []string{"isolate"}
	}
	if d.Parameters != nil {
		d.Parameters = slices.Concat(d.Parameters, []string{Param}, limits.Parameters)
	}
	d.CheckParameter = func(cfg *backend.Config, name string) error {
		if err := checkParameter(cfg, name, d.Isolated); err != nil || check == nil {
			return err
		}
		return check(cfg, name)
	}
	if d.Settings != nil {
		d.Settings = append(slices.Clone(d.Settings), limits.SettingLoadLimit, SettingOwnCode)
	}
	d.Open = func(ctx context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
		inner, err := open(ctx, host, s)
		if err != nil {
			return nil, err
		}
		user, err := process.FindUser(o.WorkerUser, s.Option("worker-user"))
		if err != nil {
			return nil, err
		}
		log := host.Logger().With(slog.String("backend", d.Name))
		ownCode := d.OwnCode
		switch v := s.Values[SettingOwnCode]; v {
		case "", "worker":
		case "server":
			ownCode = nil
		default:
			return nil, backend.Errorf(backend.InvalidArg, s.Option("backend-config")+"=%s,%s=%s: expected worker or server", d.Name,
				SettingOwnCode, v)
		}
		return &wrapped{
			Backend: inner, name: d.Name, always: d.Isolated, ownCode: ownCode, options: o, user: user,
			host: host, settings: s, log: log,
			launcher: &process.Launcher{Logger: log},
		}, nil
	}
	return d
}

// wrapped is the backend in the server.
type wrapped struct {
	backend.Backend
	name     string
	always   bool                         // models that say nothing run in workers
	ownCode  func(*backend.Config) string // nil: wherever the model wants
	options  Options
	user     *process.User // of workers; nil for the server's
	host     backend.Host
	settings backend.Settings
	log      *slog.Logger
	launcher *process.Launcher
	warm     supervise.Warm
}

// checkParameter is what a load says of the parameters of this package. Those that
// limit a worker are read where the model says that it has one.
func checkParameter(cfg *backend.Config, name string, always bool) error {
	switch v := strings.ToLower(cfg.Parameters[Param]); {
	case v == "process", v == "" && always:
		return limits.Check(cfg.Parameters, name)
	case v != "" && v != "none" && name == Param:
		return notIsolation(cfg)
	}
	return nil
}

func notIsolation(cfg *backend.Config) error {
	return backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected process or none", Param, cfg.Name,
		cfg.Parameters[Param])
}

// isolated reports whether the model runs in a process of its own: it says so,
// or brings code.
func (w *wrapped) isolated(cfg *backend.Config) (bool, error) {
	why := "'" + Param + ": process'"
	v := strings.ToLower(cfg.Parameters[Param])
	if v == "" && w.always && w.options.Binary != "" {
		v = "process"
	}
	switch v {
	case "", "none":
		code := ""
		if w.ownCode != nil {
			code = w.ownCode(cfg)
		}
		if code == "" {
			return false, nil
		}
		why = fmt.Sprintf("code of its own (%s), which runs in a worker unless the server is started with "+w.settings.Option("backend-config")+
			"=%s,%s=server", code, w.name, SettingOwnCode)
	case "process":
	default:
		return false, notIsolation(cfg)
	}
	if w.options.Binary == "" {
		return false, backend.Errorf(backend.Unsupported,
			"model '%s' has %s; this program names no neso command for workers (all.Options.WorkerBinary)", cfg.Name, why)
	}
	if _, err := limits.LoadLimitOf(cfg.Parameters, w.settings.Values); err != nil {
		return false, err
	}
	_, err := limits.Of(cfg.Parameters)
	return err == nil, err
}

// Complete implements backend.Backend.
func (w *wrapped) Complete(ctx context.Context, cfg backend.Config) ([]byte, error) {
	yes, err := w.isolated(&cfg)
	if err != nil {
		return nil, err
	}
	if !yes {
		return w.Backend.Complete(ctx, cfg)
	}
	in := firstInstance(&cfg)
	s, err := supervise.Launch(ctx, w.spec(&cfg, &in))
	if err != nil {
		return nil, err
	}
	answer, err := w.load(ctx, s.Conn, &cfg, in, true)
	if err != nil {
		s.Kill()
		return nil, err
	}
	w.warm.Keep(&cfg, s)
	var body loaded
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, backend.Errorf(backend.Internal, "answer of the worker of model '%s': %v", cfg.Name, err)
	}
	return body.Config, nil
}

func firstInstance(cfg *backend.Config) backend.InstanceConfig {
	if len(cfg.Instances) > 0 {
		return cfg.Instances[0]
	}
	return backend.InstanceConfig{Name: cfg.Name + "_0", Kind: "KIND_CPU"}
}

// Load implements backend.Backend.
func (w *wrapped) Load(ctx context.Context, cfg backend.Config) (backend.Model, error) {
	yes, err := w.isolated(&cfg)
	if err != nil {
		return nil, err
	}
	if !yes {
		return w.Backend.Load(ctx, cfg)
	}
	return newModel(w, cfg), nil
}

// spec says how to start the worker of an instance.
func (w *wrapped) spec(cfg *backend.Config, in *backend.InstanceConfig) supervise.Spec {
	// The cores are divided among the workers of a version: the libraries take
	// GOMAXPROCS for what there is.
	cores := max(1, processors.Count()/max(1, len(cfg.Instances)))
	if in.HostPolicy != nil && len(in.HostPolicy.Processors) > 0 {
		cores = min(len(in.HostPolicy.Processors), processors.Count())
	}
	env := append(process.Environment(w.options.Environment, w.options.WorkerEnvironment, w.user), w.options.Env...)
	bounds, _ := limits.Of(cfg.Parameters) // checked by isolated
	load, _ := limits.LoadLimitOf(cfg.Parameters, w.settings.Values)
	env = append(env, fmt.Sprintf("GOMAXPROCS=%d", cores))
	return supervise.Spec{
		Launcher: w.launcher, Name: in.Name, Host: w.host,
		Command: process.Command{
			Path: w.options.Binary, Args: w.options.Arguments, Env: env, User: w.user, Limits: bounds,
			HostPolicy: in.HostPolicy, Confine: process.Confiner(w.options.Binary),
		},
		Logger: w.log.With(slog.String("model", cfg.Name), slog.String("instance", in.Name)), LoadLimit: load,
	}
}

// load sends LOAD and returns the body of READY.
func (w *wrapped) load(ctx context.Context, c *worker.Conn, cfg *backend.Config, in backend.InstanceConfig, complete bool) (json.RawMessage,
	error,
) {
	view := *cfg
	view.Instances = []backend.InstanceConfig{in}
	answer, err := c.Load(ctx, wire.KindLoad, 0, loadBody{Backend: w.name, Settings: w.settings, View: view, Complete: complete})
	return answer, plain(err)
}

// plain turns an error that the worker told into that error.
func plain(err error) error {
	if e, ok := errors.AsType[*worker.CallError](err); ok {
		return &backend.Error{Code: e.Code, Message: e.Message}
	}
	return err
}

// Close implements backend.Backend.
func (w *wrapped) Close() error {
	w.warm.Close()
	w.launcher.Close()
	return w.Backend.Close()
}
