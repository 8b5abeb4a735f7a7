// Package openvino serves OpenVINO IR (model.xml with model.bin), ONNX and the
// other model files that the OpenVINO library reads. The library is opened at
// run time through its C API.
//
// Open model.go first, then execute.go. One compiled model serves all instances
// of a version, each with an infer request of its own; inputs are views of the
// requests' memory, outputs are copied out of the library's. The C border is
// api.go (functions), network.go (what a model has) and value.go (tensors).
package openvino
