// Package model owns one loaded version of a model: its configuration, its
// instances, its scheduler, its numbers and its warm-up. Open model.go first,
// then infer.go, which is hop 3 of a request.
package model

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

var errStub = errors.New("not built yet")

// Options say what to load and with what.
type Options struct {
	Config *modelconfig.Config
	// Backend is the view of the configuration for the backend, directories
	// included.
	BackendConfig backend.Config
	Backend       backend.Backend
	// Allocator gives ordinary pooled memory, used where the backend has none.
	Allocator tensor.Allocator
	Logger    *slog.Logger
	// WarmupInStatistics counts warm-up runs as Triton does.
	WarmupInStatistics bool
}

// Model is one loaded version.
type Model struct{}

// Open loads the version, creates its instances and warms them up. On error
// everything it made is closed.
func Open(ctx context.Context, o Options) (*Model, error) { return nil, errStub }

// Config returns the configuration.
func (m *Model) Config() *modelconfig.Config { return nil }

// Version returns the version number.
func (m *Model) Version() int64 { return 0 }

// Pin keeps the version loaded for one request; it fails once Close has begun.
func (m *Model) Pin() bool { return false }

// Unpin ends a Pin.
func (m *Model) Unpin() {}

// Allocator gives memory for inputs, where the model wants them.
func (m *Model) Allocator() tensor.Allocator { return nil }

// Infer is hop 3: it comes from engine.Infer (hop 2) with a pinned request and
// hands it to the scheduler (hop 4). It checks the request against the
// configuration. An error is a refusal: the request has not been answered.
// Otherwise it is, or will be, answered through its sink. Infer may run the
// request on the calling goroutine.
func (m *Model) Infer(r *infer.Request) error { return errStub }

// Labels returns the class labels of an output, or nil.
func (m *Model) Labels(output string) []string { return nil }

// Ready returns nil, or why the version cannot serve at present.
func (m *Model) Ready() error { return errStub }

// Stats returns the version's numbers.
func (m *Model) Stats() *stats.Version { return nil }

// Inflight returns how many requests are pinned.
func (m *Model) Inflight() int { return 0 }

// Close refuses new pins, waits for pinned requests until ctx ends, then fails
// what is still queued, and closes instances and backend model. It may be
// called more than once.
func (m *Model) Close(ctx context.Context) error { return errStub }
