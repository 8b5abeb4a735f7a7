package native

import (
	"log/slog"

	"github.com/nesoserve/neso/backend"
)

// paramBatching names a library that says which requests come into a batch.
const paramBatching = "TRITON_BATCH_STRATEGY_PATH"

const batchingLibrary = "batchstrategy.so"

// checkBatching refuses a model whose batches a library of its own is to form: the
// server forms them, in a process that opens no libraries.
func (d *driver) checkBatching(cfg *backend.Config) error {
	if _, ok := cfg.Parameters[paramBatching]; ok {
		return backend.Errorf(backend.Unsupported, "model '%s' has %s: libraries that form batches are not supported", cfg.Name, paramBatching)
	}
	if path := find([]string{cfg.VersionDirectory, cfg.Directory}, d.settings.Directory, cfg.Backend, batchingLibrary); path != "" {
		d.log.Warn("the library has no effect: the server forms the batches itself", slog.String("model", cfg.Name),
			slog.String("library", path))
	}
	return nil
}
