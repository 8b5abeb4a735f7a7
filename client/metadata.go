package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ServerMetadata returns the server's name, version and extensions, as JSON; see
// ServerInfo.
func (c *Client) ServerMetadata(ctx context.Context) (json.RawMessage, error) {
	return call(ctx, c, control, transport.serverMetadata)
}

// ServerInfo says what server it is.
type ServerInfo struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// ServerInfo returns the server's name, version and extensions.
func (c *Client) ServerInfo(ctx context.Context) (*ServerInfo, error) {
	return read[ServerInfo](c.ServerMetadata(ctx))
}

// read takes an answer apart.
func read[T any](text json.RawMessage, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := json.Unmarshal(text, result); err != nil {
		return nil, fmt.Errorf("the server's answer is no JSON of the protocol: %w", err)
	}
	return result, nil
}

// ModelMetadata says what a model takes and gives.
func (c *Client) ModelMetadata(ctx context.Context, model, version string) (*Metadata, error) {
	return read[Metadata](call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.modelMetadata(ctx, model, version)
	}))
}

// ModelConfig returns a model's configuration as the server completed it, as JSON.
// Over gRPC what is not set may be left out of it that HTTP has as a default.
func (c *Client) ModelConfig(ctx context.Context, model, version string) (json.RawMessage, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.modelConfig(ctx, model, version)
	})
}

// Statistics returns the statistics of a model, or of all for model "", as JSON; see
// ModelStatistics.
func (c *Client) Statistics(ctx context.Context, model, version string) (json.RawMessage, error) {
	return call(ctx, c, control, func(t transport, ctx context.Context) (json.RawMessage, error) {
		return t.statistics(ctx, model, version)
	})
}

// Metadata describes a model.
type Metadata struct {
	Name     string           `json:"name"`
	Versions []string         `json:"versions"`
	Platform string           `json:"platform"`
	Inputs   []TensorMetadata `json:"inputs"`
	Outputs  []TensorMetadata `json:"outputs"`
}

// TensorMetadata describes an input or output; -1 in Shape stands for any size,
// and the batch dimension is part of it.
type TensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// ModelStatistics are those of one version since it was loaded.
type ModelStatistics struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// LastInference is when the last request was answered, in milliseconds since 1970.
	LastInference int64 `json:"last_inference"`
	// InferenceCount counts the elements of batches, ExecutionCount the batches.
	InferenceCount uint64 `json:"inference_count"`
	ExecutionCount uint64 `json:"execution_count"`
	// Inference is what requests took, by phase.
	Inference InferenceStatistics `json:"inference_stats"`
	// Responses are those of decoupled models, by the number of the response.
	Responses map[string]ResponseStatistics `json:"response_stats"`
	// Batches are the executions, by the size of the batch.
	Batches []BatchStatistics `json:"batch_stats"`
	Memory  []MemoryUsage     `json:"memory_usage"`
}

// InferenceStatistics are the phases of requests.
type InferenceStatistics struct {
	Success       DurationStatistics `json:"success"`
	Fail          DurationStatistics `json:"fail"`
	Queue         DurationStatistics `json:"queue"`
	ComputeInput  DurationStatistics `json:"compute_input"`
	ComputeInfer  DurationStatistics `json:"compute_infer"`
	ComputeOutput DurationStatistics `json:"compute_output"`
	CacheHit      DurationStatistics `json:"cache_hit"`
	CacheMiss     DurationStatistics `json:"cache_miss"`
}

// ResponseStatistics are those of one of the responses to requests.
type ResponseStatistics struct {
	ComputeInfer  DurationStatistics `json:"compute_infer"`
	ComputeOutput DurationStatistics `json:"compute_output"`
	Success       DurationStatistics `json:"success"`
	Fail          DurationStatistics `json:"fail"`
	EmptyResponse DurationStatistics `json:"empty_response"`
	Cancel        DurationStatistics `json:"cancel"`
}

// BatchStatistics are those of executions of one batch size.
type BatchStatistics struct {
	BatchSize     uint64             `json:"batch_size"`
	ComputeInput  DurationStatistics `json:"compute_input"`
	ComputeInfer  DurationStatistics `json:"compute_infer"`
	ComputeOutput DurationStatistics `json:"compute_output"`
}

// DurationStatistics are how often something took place, and how long that took in sum.
type DurationStatistics struct {
	Count uint64 `json:"count"`
	Nanos uint64 `json:"ns"`
}

// Mean returns how long it took once, on average.
func (d DurationStatistics) Mean() time.Duration {
	if d.Count == 0 {
		return 0
	}
	return time.Duration(d.Nanos / d.Count)
}

// MemoryUsage is what memory of a kind a model holds.
type MemoryUsage struct {
	Type     string `json:"type"`
	ID       int64  `json:"id"`
	ByteSize uint64 `json:"byte_size"`
}

// ModelStatistics returns the statistics of a model, of all its versions for version
// "", or of all models for model "".
func (c *Client) ModelStatistics(ctx context.Context, model, version string) ([]ModelStatistics, error) {
	all, err := read[struct {
		Models []ModelStatistics `json:"model_stats"`
	}](c.Statistics(ctx, model, version))
	if err != nil {
		return nil, err
	}
	return all.Models, nil
}
