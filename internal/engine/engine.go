// Package engine is the server without front ends: one method for everything a
// caller can ask. Open engine.go first, then infer.go, which is hop 2.
package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
)

var errStub = errors.New("not built yet")

// Options configure the server; the zero values are Triton's defaults.
type Options struct {
	ID           string // server name in metadata, default "triton"
	Repositories []string
	Backends     []backend.Driver
	BackendDir   string
	// BackendSettings holds --backend-config values by backend name; "" holds the
	// global ones.
	BackendSettings       map[string]map[string]string
	ControlMode           string // "none", "explicit" ("poll" is refused for now)
	StartupModels         []string
	ExitOnError           bool
	DisableAutoComplete   bool
	StrictReadiness       bool
	ModelConfigName       string
	LoadThreads           int
	LoadRetries           int
	WarmupInStatistics    bool
	MaxQueuedBytes        int64
	MaxQueuedRequests     int64
	RateLimit             string
	ResponseCacheRequired bool
	Logger                *slog.Logger
}

// Engine is the running server.
type Engine struct{}

// New makes an engine; nothing is loaded yet.
func New(o Options) (*Engine, error) { return nil, errStub }

// Start loads the startup models. With ExitOnError it fails with all failures
// listed when one does not load; else the rest serves.
func (e *Engine) Start(ctx context.Context) error { return errStub }

// Resolve pins a version of a model for one request of bytes input bytes
// (reserved against the server-wide caps): the given version, or the latest ready
// one for -1. The caller must hand the pin on with Infer, or end it with Unpin.
// Errors carry the protocol's texts and codes, RetryAfter on overload.
func (e *Engine) Resolve(name string, version int64, bytes int64) (Pin, error) {
	return Pin{}, errStub
}

// Pin is a model version held for one request.
type Pin struct {
	Model *model.Model
	bytes int64
	e     *Engine
}

// Unpin lets go of a pin that was not handed to Infer.
func (p Pin) Unpin() {}

// NewRequest returns a request pinned to p's version that answers into sink.
// The pin and its reserved bytes end with the request (also with Abandon).
func (p Pin) NewRequest(sink infer.Sink) *infer.Request { return nil }

// Infer is hop 2: it comes from a front end (hop 1) and goes on to model.Infer
// (hop 3). An error is a refusal; then the request has been abandoned and its
// sink is never called.
func (e *Engine) Infer(r *infer.Request) error { return errStub }

// Live returns nil, or why the server is not live (Unavailable "Server exiting"
// once shutting down).
func (e *Engine) Live() error { return errStub }

// Ready returns nil, or why the server is not ready.
func (e *Engine) Ready() error { return errStub }

// ModelReady returns nil, or why the version (-1: the latest) is not ready.
func (e *Engine) ModelReady(name string, version int64) error { return errStub }

// Model returns a ready version without pinning it, for metadata and
// configuration, with the ready versions in ascending order.
func (e *Engine) Model(name string, version int64) (*modelconfig.Config, []int64, error) {
	return nil, nil, errStub
}

// VersionStats is the statistics of one ready version.
type VersionStats struct {
	Name    string
	Version int64
	Stats   *stats.Version
	Config  *modelconfig.Config
}

// Statistics returns the numbers of one model (version -1: all its ready
// versions), or of all ready models for the empty name.
func (e *Engine) Statistics(name string, version int64) ([]VersionStats, error) {
	return nil, errStub
}

// IndexEntry is one line of the repository index.
type IndexEntry struct {
	Name, Version, State, Reason string
}

// Index lists the models of all repositories; with ready only the ready ones.
func (e *Engine) Index(ready bool) ([]IndexEntry, error) { return nil, errStub }

// Load loads or reloads a model (explicit control mode only). config is JSON or
// empty; files maps "1/model.onnx"-like paths to content.
func (e *Engine) Load(ctx context.Context, name, config string, files map[string][]byte) error {
	return errStub
}

// Unload unloads a model (explicit control mode only) and returns at once;
// with dependents also the models only it uses.
func (e *Engine) Unload(ctx context.Context, name string, dependents bool) error { return errStub }

// Metadata describes the server.
type Metadata struct {
	Name, Version string
	Extensions    []string
}

// Metadata returns the server's name, version and protocol extensions.
func (e *Engine) Metadata() Metadata { return Metadata{} }

// Close makes the server not ready, refuses new requests, waits for those in
// flight until ctx ends, unloads all models and closes the backends. It may be
// called more than once.
func (e *Engine) Close(ctx context.Context) error { return errStub }
