package python

import (
	"slices"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
)

// ownParameters are those of models of the backend "python" alone.
var ownParameters = []string{paramForceCPU, paramWritable}

// workerParameters are the parameters of all models that run in Python workers.
func workerParameters() []string {
	return append([]string{paramEnvironment, paramLimit}, limits.Parameters...)
}

// checkParameter is backend.Driver.CheckParameter of the backend "python".
func checkParameter(cfg *backend.Config, name string) error {
	v := cfg.Parameters[name]
	switch known := v == "" || v == "yes" || v == "no"; {
	case name == paramForceCPU && !known:
		return backend.Errorf(backend.InvalidArg, "Incorrect value for %s: %s'", name, v)
	case name == paramWritable && !known:
		return backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is neither yes nor no", name, v)
	}
	return checkWorkerParameter(cfg, name)
}

// checkWorkerParameter is backend.Driver.CheckParameter of all that run models in
// Python workers.
func checkWorkerParameter(cfg *backend.Config, name string) error {
	if name == paramLimit {
		_, err := limitOf(cfg, 0)
		return err
	}
	return limits.Check(cfg.Parameters, name)
}

// checkParameters checks all that the model's backend reads.
func (d *driver) checkParameters(cfg *backend.Config) error {
	names, check := workerParameters(), checkWorkerParameter
	if d.hosted == nil {
		names, check = slices.Concat(names, ownParameters), checkParameter
	}
	for _, name := range names {
		if _, ok := cfg.Parameters[name]; !ok {
			continue
		}
		if err := check(cfg, name); err != nil {
			return err
		}
	}
	return nil
}

// takesDevice reports whether the model wants inputs on a GPU where they are.
func takesDevice(cfg *backend.Config) bool { return cfg.Parameters[paramForceCPU] == "no" }

// limitOf returns how long a worker of the model may take for one batch, 0 for
// as long as it likes.
func limitOf(cfg *backend.Config, otherwise time.Duration) (time.Duration, error) {
	text, ok := cfg.Parameters[paramLimit]
	if !ok {
		return otherwise, nil
	}
	limit, ok := limits.ParseSeconds(text)
	if !ok {
		return 0, backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number of seconds from 0 on", paramLimit, text)
	}
	return limit, nil
}
