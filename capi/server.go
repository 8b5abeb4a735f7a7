//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/native"
	"github.com/nesoserve/neso/capi/object"
)

// server is a TRITONSERVER_Server.
type server struct {
	serving              // what answers for it
	own     *neso.Server // the same, unless it is that of another process
	handle  handle.Handle
	mode    string
	metrics bool
	exit    atomic.Int64 // nanoseconds that a stop may take
	end     sync.Once
	ended   error
	flights flights
}

// serving is what a server does for a program: one of this process, or in neso-host
// the one that has started it.
type serving interface {
	Live() error
	Ready() error
	Metadata() ([]byte, error)
	WriteMetrics(w io.Writer) error
	Index(ready bool) ([]byte, error)
	ModelReady(name string, version int64) error
	ModelMetadata(name string, version int64) ([]byte, error)
	ModelConfig(name string, version int64) ([]byte, error)
	Statistics(name string, version int64) ([]byte, error)
	Labels(model string, version int64, output string) []string
	Load(ctx context.Context, name, config string, files map[string][]byte) error
	Unload(ctx context.Context, name string, dependents bool) error
	RegisterRepository(path string, names map[string]string) error
	UnregisterRepository(path string) error
	Poll(ctx context.Context) error
	Rollout(model string) ([]byte, error)
	SetRollout(ctx context.Context, model string, change []byte) error
	Serves(name string, version int64) error
	Submit(ctx context.Context, q neso.Request, to neso.Receiver, follow neso.Follower) error
}

var servers = handle.NewTable[server](handle.Server)

// serverOf returns the server of a handle, nil where there is none.
func serverOf(h handle.Handle) *server {
	if s := servers.Get(h); s != nil {
		return s
	}
	return hostedServer(h)
}

// customMetrics are the process's: a program makes them without a server.
var customMetrics = neso.NewCustomMetrics()

// Drivers are further backends, which packages beside this one add before the first
// server is made.
var Drivers []func() []backend.Driver

// workerBinary is the neso command, which workers of a user or with limits and those
// of `isolation: process` are started with.
func workerBinary() string {
	if path := environment("NESO_BINARY"); path != "" {
		return path
	}
	if path := beside("neso"); path != "" {
		return path
	}
	path, _ := exec.LookPath("neso")
	return path
}

// nativeHost is neso-host, which runs backend libraries; "" leaves the search to the
// backend.
func nativeHost() string {
	if os.Getenv("NESO_HOST") != "" {
		return ""
	}
	return beside("neso-host")
}

// beside returns a file beside the library, or "" where there is none.
func beside(name string) string {
	path := libraryPath()
	if path == "" {
		return ""
	}
	path = filepath.Join(filepath.Dir(path), name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

//export TRITONSERVER_ServerNew
func TRITONSERVER_ServerNew(made, options C.uintptr_t) C.uintptr_t {
	o := optionSets.Get(handle.Handle(options))
	switch {
	case o == nil:
		return C.uintptr_t(object.Stale("server options"))
	case made == 0:
		return C.uintptr_t(object.Null("the place for the server"))
	}
	s, err := o.build()
	if err == nil {
		err = s.own.Start(context.Background())
	}
	if err != nil {
		return C.uintptr_t(object.FromError(startError(s, err)))
	}
	s.handle = servers.New(s)
	object.Set(uintptr(made), uintptr(s.handle))
	return 0
}

// startError gives an error of the start the code and the text of the peer: it says
// of models that are named, and do not load, what it says when they are loaded later, and
// only that there are some where they are not found, or cannot be read.
func startError(s *server, err error) error {
	if s != nil && s.mode == "explicit" {
		list, cut := strings.CutPrefix(err.Error(), "failed to load all models\n")
		if cut && !strings.Contains(list, "failed to poll from model repository") {
			lines := strings.Split(list, "\n")
			for i, line := range lines {
				for _, name := range s.own.StartupModels {
					line = strings.TrimPrefix(line, "  "+name+": ")
				}
				lines[i] = strings.TrimPrefix(line, "    ") // of a text of several lines
			}
			return backend.Errorf(backend.InvalidArg, "%s", strings.Join(lines, "\n"))
		}
	}
	if _, coded := errors.AsType[*backend.Error](err); coded {
		return err
	}
	return backend.Errorf(backend.Internal, "%v", err)
}

// build makes a server of the options as they are now.
func (o *serverOptions) build() (*server, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.caches) > 1 {
		return nil, backend.Errorf(backend.InvalidArg, "found multiple cache configurations, but only a single cache is currently supported")
	}
	if len(o.server.ModelRepositories) == 0 {
		return nil, backend.Errorf(backend.InvalidArg, "--model-repository must be specified")
	}
	s := &server{
		own: &neso.Server{
			ID: o.server.ID, ModelRepositories: append([]string(nil), o.server.ModelRepositories...),
			ControlMode: o.server.ControlMode, StartupModels: append([]string(nil), o.server.StartupModels...),
			DisableAutoComplete: o.server.DisableAutoComplete, ModelConfigName: o.server.ModelConfigName,
			RateLimit: o.server.RateLimit, RateLimitResources: append([]neso.RateLimitResource(nil), o.server.RateLimitResources...),
			GPU: o.server.GPU, KeepGoing: o.server.KeepGoing, LooseReadiness: o.server.LooseReadiness, LoadThreads: o.server.LoadThreads,
			LoadRetries: o.server.LoadRetries, ModelNamespacing: o.server.ModelNamespacing, Metrics: o.server.Metrics,
			BackendDirectory: o.server.BackendDirectory, RepositoryAgentDirectory: o.server.RepositoryAgentDirectory,
			BackendSettings: clone(o.server.BackendSettings), HostPolicies: clone(o.server.HostPolicies), ModelLoads: o.server.ModelLoads,
			Log: processLog(), SharedMemory: "never",
		},
		mode: o.server.ControlMode, metrics: o.metrics,
	}
	if s.mode != "explicit" {
		s.own.StartupModels = nil // they have no meaning, which is no error
	}
	s.serving = s.own
	s.own.Metrics.Custom = customMetrics
	// Bounded by what stop passes to CloseWithin; see there.
	s.exit.Store(int64(o.exit))
	for _, c := range o.caches {
		if c.Name == "" { // which would mean no cache
			return nil, backend.Errorf(backend.InvalidArg, "unable to find 'libtritoncache_.so' for cache. Searched: %s", o.cacheDir)
		}
		s.own.ResponseCache = c
		s.own.ResponseCache.Directory, s.own.ResponseCache.Settings = o.cacheDir, maps.Clone(c.Settings)
	}
	with := all.Options{
		Python: environment("NESO_PYTHON"), WorkerBinary: workerBinary(), NativeHost: nativeHost(), NativeHere: native.Here,
		Environment: variables(),
	}
	s.own.Backends, s.own.Libraries = all.Drivers(with), all.Plugins(with)
	for _, more := range Drivers {
		s.own.Backends = append(s.own.Backends, more()...)
	}
	return s, nil
}

func clone(all map[string]map[string]string) map[string]map[string]string {
	c := make(map[string]map[string]string, len(all))
	for name, settings := range all {
		c[name] = maps.Clone(settings)
	}
	return c
}

// errExit says that requests were cut off, as the engine does.
var errExit = backend.Errorf(backend.Internal, "Exit timeout expired. Exiting immediately.")

// stop ends the server; every call returns what the first one does.
func (s *server) stop() error {
	s.end.Do(func() {
		exit := time.Duration(s.exit.Load())
		var cut atomic.Bool
		late := time.AfterFunc(exit, func() {
			if s.flights.cancel() > 0 { // else their executions hold the end up for longer
				cut.Store(true)
			}
		})
		s.ended = s.own.CloseWithin(exit)
		late.Stop()
		s.flights.cancel() // those that came meanwhile
		if s.ended == nil && cut.Load() {
			s.ended = errExit
		}
	})
	return s.ended
}

//export TRITONSERVER_ServerStop
func TRITONSERVER_ServerStop(h C.uintptr_t) C.uintptr_t {
	return ask(h, func(s *server) error {
		if s.own == nil {
			return errElsewhere
		}
		return s.stop()
	})
}

//export TRITONSERVER_ServerDelete
func TRITONSERVER_ServerDelete(h C.uintptr_t) C.uintptr_t {
	s := servers.Take(handle.Handle(h))
	if s == nil {
		return C.uintptr_t(object.Stale("server"))
	}
	if err := s.stop(); err != nil && !strings.Contains(err.Error(), errExit.Message) {
		return C.uintptr_t(object.FromError(err))
	}
	return 0
}

// ask calls f with the server of a handle. What f returns is the error.
func ask(h C.uintptr_t, f func(s *server) error) C.uintptr_t {
	s := serverOf(handle.Handle(h))
	if s == nil {
		return C.uintptr_t(object.Stale("server"))
	}
	return C.uintptr_t(object.FromError(f(s)))
}

//export TRITONSERVER_ServerSetExitTimeout
func TRITONSERVER_ServerSetExitTimeout(h C.uintptr_t, seconds C.uint) C.uintptr_t {
	return ask(h, func(s *server) error {
		s.exit.Store(int64(time.Duration(seconds) * time.Second))
		return nil
	})
}

//export TRITONSERVER_ServerIsLive
func TRITONSERVER_ServerIsLive(h, live C.uintptr_t) C.uintptr_t {
	return health(h, live, serving.Live)
}

//export TRITONSERVER_ServerIsReady
func TRITONSERVER_ServerIsReady(h, ready C.uintptr_t) C.uintptr_t {
	return health(h, ready, serving.Ready)
}

// health answers a question about the server: while it stops, with an error.
func health(h, answer C.uintptr_t, question func(serving) error) C.uintptr_t {
	if answer == 0 {
		return C.uintptr_t(object.Null("the place for the answer"))
	}
	return ask(h, func(s *server) error {
		err := question(s.serving)
		object.Set(uintptr(answer), C.bool(err == nil))
		if b := backend.AsError(err); b != nil && b.Code == backend.Unavailable {
			return b
		}
		return nil
	})
}

//export TRITONSERVER_ServerMetadata
func TRITONSERVER_ServerMetadata(h, message C.uintptr_t) C.uintptr_t {
	return document(h, message, serving.Metadata)
}

// document gives the caller a message.
func document(h, message C.uintptr_t, of func(s serving) ([]byte, error)) C.uintptr_t {
	if message == 0 {
		return C.uintptr_t(object.Null("the place for the message"))
	}
	return ask(h, func(s *server) error {
		text, err := of(s.serving)
		if err == nil {
			object.Set(uintptr(message), uintptr(object.NewMessage(text)))
		}
		return err
	})
}

// metricsText is a TRITONSERVER_Metrics: the numbers of the time of its making.
type metricsText struct {
	text string
	c    object.Text
}

var metricTexts = handle.NewTable[metricsText](handle.Metrics)

//export TRITONSERVER_ServerMetrics
func TRITONSERVER_ServerMetrics(h, made C.uintptr_t) C.uintptr_t {
	if made == 0 {
		return C.uintptr_t(object.Null("the place for the metrics"))
	}
	return ask(h, func(s *server) error {
		var b bytes.Buffer
		if s.metrics { // else there are none, which is no error there either
			if err := s.WriteMetrics(&b); err != nil {
				return err
			}
		}
		object.Set(uintptr(made), uintptr(metricTexts.New(&metricsText{text: b.String()})))
		return nil
	})
}

//export TRITONSERVER_MetricsDelete
func TRITONSERVER_MetricsDelete(h C.uintptr_t) C.uintptr_t {
	m := metricTexts.Take(handle.Handle(h))
	if m == nil {
		return C.uintptr_t(object.Stale("metrics"))
	}
	m.c.Free()
	return 0
}

//export TRITONSERVER_MetricsFormatted
func TRITONSERVER_MetricsFormatted(h C.uintptr_t, format C.int, base, size C.uintptr_t) C.uintptr_t {
	m := metricTexts.Get(handle.Handle(h))
	switch {
	case m == nil:
		return C.uintptr_t(object.Stale("metrics"))
	case format != 0:
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "unknown metrics format '%d'", int(format)))
	case base == 0 || size == 0:
		return C.uintptr_t(object.Null("the place for the text"))
	}
	object.Set(uintptr(base), m.c.C(m.text))
	object.Set(uintptr(size), C.size_t(len(m.text)))
	return 0
}
