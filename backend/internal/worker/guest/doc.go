// Package guest is the worker's side of the protocol, for workers that are written
// in Go. A Guest reads frames, maps what the server hands over (memory.go) and
// has a Handler run the batches (execute.go). Those of libraries are served (served.go):
// turns.go says who reads then. Open guest.go first.
package guest
