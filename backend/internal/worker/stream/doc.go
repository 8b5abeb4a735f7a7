// Package stream bounds what runs ahead of its reader: the responses of a decoupled
// model on their way to a client (stream.go), and those of a model that another model
// has called (callwindow.go).
package stream
