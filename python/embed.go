// Package pyfiles carries the Python sources that the server needs at run
// time: the runtime of worker processes, in neso_worker.
package pyfiles

import "embed"

// Worker holds neso_worker, the package that every Python worker runs.
//
//go:embed neso_worker/*.py
var Worker embed.FS
