// Package isolate runs a backend that is written in Go in worker processes: a
// library that crashes, leaks or runs out of memory then ends a worker and not
// the server, and an unloaded model gives all its memory back.
//
// Open backend.go first, which is the server's side: [Wrap] adds the model
// parameter `isolation: process` to a backend. main.go is the worker's: the same
// binary, started as `neso isolate`.
package isolate
