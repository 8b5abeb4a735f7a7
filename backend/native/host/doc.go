// Package host is the worker's side of package backend/native: what neso-host runs.
// It speaks the worker protocol and has a Library, which is C's business (package
// capi/native), load models, make instances and run batches. Open host.go first.
package host
