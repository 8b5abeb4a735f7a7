package client

import (
	"context"
	"encoding/json"
)

// transport is what HTTP and gRPC say in ways of their own. What is JSON has the
// form of HTTP over both.
type transport interface {
	live(ctx context.Context) (bool, error)
	ready(ctx context.Context) (bool, error)
	modelReady(ctx context.Context, model, version string) (bool, error)

	serverMetadata(ctx context.Context) (json.RawMessage, error)
	modelMetadata(ctx context.Context, model, version string) (json.RawMessage, error)
	modelConfig(ctx context.Context, model, version string) (json.RawMessage, error)
	statistics(ctx context.Context, model, version string) (json.RawMessage, error)

	index(ctx context.Context, ready bool) ([]IndexEntry, error)
	load(ctx context.Context, model string, o *Override) error
	unload(ctx context.Context, model string, dependents bool) error

	// rollout shows the rules for the versions of a model, changed first unless change is nil.
	rollout(ctx context.Context, model string, change json.RawMessage) (json.RawMessage, error)

	logSettings(ctx context.Context, change map[string]any) (json.RawMessage, error)
	traceSettings(ctx context.Context, model string, change map[string]any) (json.RawMessage, error)

	systemRegions(ctx context.Context, name string) ([]SystemRegion, error)
	cudaRegions(ctx context.Context, name string) ([]CUDARegion, error)
	registerSystem(ctx context.Context, r *SystemRegion) error
	registerCUDA(ctx context.Context, r *CUDARegion, handle []byte) error
	unregister(ctx context.Context, kind regionKind, name string) error

	// infer sends the request once.
	infer(ctx context.Context, q *Request) (*Response, error)
	// stream sends the request, and calls yield with each response, or with an error
	// that a response was replaced by; it returns the error that ended the stream.
	stream(ctx context.Context, q *Request, yield func(*Response, error) bool) error

	close() error
}

// regionKind is what memory is registered.
type regionKind int

const (
	systemMemory regionKind = iota
	cudaMemory
)
