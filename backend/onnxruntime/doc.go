// Package onnxruntime serves ONNX models with the ONNX Runtime library, which
// is opened at run time through its C API.
//
// Open model.go first, then execute.go. One session serves all instances of a
// version that run on the CPU (instances on a device have one each); inputs are
// views of the requests' memory, and outputs whose shape follows from the inputs
// are written into pooled memory, others handed out from ONNX Runtime's own.
// The C border is api.go (functions), env.go (process-wide state) and value.go
// (tensors).
package onnxruntime
