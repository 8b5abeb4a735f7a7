// Package kserve is the meaning of the KServe v2 protocol with its Triton
// extensions, and both of its wire forms: the only place where wire meets core.
//
// parameters.go and outputs.go know meaning (sequences, priority, timeout,
// requested outputs, classification), which HTTP and gRPC share. The json_*.go
// files know the syntax of JSON with its binary tail, the proto_*.go files
// that of protobuf. Open parameters.go first, then json_decode.go.
package kserve
