// Package backend is the contract between the server and whatever runs a
// model: a Go function, a library reached at run time, or a worker process.
//
// A [Driver] opens a [Backend] once per server. The backend loads a [Model]
// for each version of each model, the model makes [Instance] values, and an
// instance executes batches. Requests of a batch are answered one by one
// through [Request.Respond]: zero, one or many responses each.
//
// Open backend.go first, then request.go. The suite backend/backendtest holds
// every implementation, ours or a user's, to this contract.
package backend
