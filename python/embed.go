// Package pyfiles carries the Python sources that the server needs at run
// time: the runtime of worker processes, in neso_worker, and in it the frameworks that it hosts.
package pyfiles

import "embed"

// Worker holds neso_worker, the package that every Python worker runs.
//
//go:embed neso_worker/*.py neso_worker/frameworks/*.py
var Worker embed.FS
