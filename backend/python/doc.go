// Package python serves TritonPythonModel classes: each instance of a model is
// a Python worker process, supervised by backend/internal/worker.
//
// It owns what is particular to Python: which interpreter or environment runs
// a model (interpreter.go, environment.go), what a worker is told (model.go)
// and the completion of configurations by the model itself (complete.go).
// Open python.go first.
package python
