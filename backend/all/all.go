// Package all is the list of the built-in backends.
package all

import (
	"github.com/nesoserve/neso/backend"
	errorbackend "github.com/nesoserve/neso/backend/error"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/backend/repeat"
	"github.com/nesoserve/neso/backend/sleep"
	"github.com/nesoserve/neso/backend/square"
)

// Options configure the built-in backends.
type Options struct {
	// Python is the interpreter of Python models; see package backend/python.
	Python string
}

// Drivers returns all built-in backends.
func Drivers(o Options) []backend.Driver {
	return []backend.Driver{
		errorbackend.New(),
		identity.New(),
		onnxruntime.New(onnxruntime.Options{Interpreter: interpreter(o)}),
		python.New(python.Options{Python: o.Python}),
		repeat.New(),
		sleep.New(),
		square.New(),
	}
}
