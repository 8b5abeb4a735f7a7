// Package grpcapi is the gRPC front end: the inference service with its streams,
// and the health service. It speaks the transport and its statuses; what
// messages mean is known to package kserve.
//
// Open server.go first, then infer.go, which is hop 1 of a request, and
// stream.go for ModelStreamInfer.
package grpcapi
