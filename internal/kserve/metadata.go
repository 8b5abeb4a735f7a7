package kserve

import (
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Platform returns what metadata shows as the platform: the configured one, or
// the backend.
func Platform(cfg *modelconfig.Config) string {
	if cfg.Platform != "" {
		return cfg.Platform
	}
	return cfg.Backend
}

// MetadataShape returns the dims of an input or output as metadata shows them:
// with the batch dimension, as -1, where the model batches.
func MetadataShape(cfg *modelconfig.Config, dims tensor.Shape) tensor.Shape {
	if cfg.MaxBatchSize < 1 {
		return dims
	}
	return append(tensor.Shape{-1}, dims...)
}
