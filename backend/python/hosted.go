package python

import (
	"context"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Hosted is a backend whose models are files of a Python framework: the
// worker's own package neso_worker.frameworks loads and runs them, in batch
// shape.
type Hosted struct {
	// Name is the backend's, and that of the framework in the worker.
	Name string
	// Preload is the package that the process has imported from which workers are
	// forked, or "": one whose import starts threads cannot be.
	Preload string
	// Settings are the keys of --backend-config that the framework knows beside
	// those of all Python workers, Parameters those of a model.
	Settings, Parameters []string
	// Files are those of Parameters that name files of the model.
	Files []string
	// Check refuses what no worker need be started for and returns the path of the
	// model's file; settings are the backend's.
	Check func(cfg *backend.Config, settings *backend.Settings) (path string, err error)
	// UsesGPU reports whether the framework that is there can use an NVIDIA GPU.
	UsesGPU func() bool
}

// hostedDepth is one: while a batch runs, the next one grows. A batch sent ahead
// would be one of the first request that comes.
const hostedDepth = 1

// hostedStart is how long a worker may take to start: it imports what takes
// seconds, and much longer from a cold disk.
const hostedStart = 2 * time.Minute

// NewHosted returns the driver of a backend of a framework.
func NewHosted(o Options, h Hosted) backend.Driver {
	return backend.Driver{
		Name: h.Name, Parameters: append(workerParameters(), h.Parameters...), CheckParameter: checkWorkerParameter,
		Settings: append(knownSettings(), h.Settings...), Files: h.Files, Paths: []string{paramEnvironment},
		Open: func(_ context.Context, host backend.Host, settings backend.Settings) (backend.Backend, error) {
			return open(o, &h, host, settings)
		},
	}
}

// name is the backend's, also without a framework.
func (h *Hosted) name() string {
	if h == nil {
		return ownName
	}
	return h.Name
}
