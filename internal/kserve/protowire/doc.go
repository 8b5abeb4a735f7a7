// Package protowire is the gRPC form of ModelInfer and ModelStreamInfer: it
// reads requests in the transport's fragments, in place, and writes responses
// whose tensors are lent to the transport. What the words mean is known to
// package kserve.
//
// Open request.go first, then decode.go and response.go.
package protowire
