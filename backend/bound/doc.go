// Package bound serves callables of a user's process over the control socket
// that the process and the server share. The process says BIND, the server
// loads the model like any other, with the process as its worker: one
// connection carries many models and many instances.
//
// Open session.go first, then model.go.
package bound
