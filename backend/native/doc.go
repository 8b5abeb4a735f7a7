// Package native serves models of backend libraries, libtriton_<name>.so, which are
// loaded as they are: by neso-host, a worker process of its own for each model, or
// one for all models of a library (parameter `isolation: shared`).
//
// It owns where a library is searched (search.go), the process with all that it was
// told (group.go), what says which requests come into a batch (batching.go), and what
// the server sees of it (model.go). What runs in the process is package
// backend/native/host. Open native.go first.
package native
