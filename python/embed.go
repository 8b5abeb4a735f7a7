// Package pyfiles carries the Python sources that the server needs at run
// time: neso_runtime, the worker protocol, and neso_worker, the processes that
// run models, with the frameworks that they host.
package pyfiles

import "embed"

// Worker holds neso_worker, the package that every Python worker runs, and
// what it stands on.
//
//go:embed neso_runtime/*.py neso_runtime/gpu/*.py neso_runtime/windows/*.py neso_worker/*.py neso_worker/frameworks/*.py
var Worker embed.FS
