// Package kserve is the meaning of the KServe v2 protocol with its Triton
// extensions, which HTTP and gRPC share: what parameters and response about
// outputs say (sequences, priority, timeout, classification, shared memory),
// and what an error's code is in each. The packages below it know the two wire
// forms, jsonwire that of JSON with its binary tail, protowire that of protobuf,
// and nothing of each other: wire meets core nowhere else.
//
// Open parameters.go first, then outputs.go and target.go.
package kserve
