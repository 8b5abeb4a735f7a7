package onnxruntime

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: New(Options{Interpreter: librarytest.Named}),
		Identity: func(t *testing.T, d tensor.Datatype, batch int) backend.Config {
			name := "identity_" + strings.ToLower(d.String())
			if batch == 0 {
				name += "_nobatch"
			}
			return configOf(t, name, batch, port("IN", d, -1), port("OUT", d, -1))
		},
		Failing: func(t *testing.T) backend.Config {
			return configOf(t, "table", 8, port("IN", tensor.Int32, 1), port("OUT", tensor.Int32, 1))
		},
		Slow: func(t *testing.T) (backend.Config, []tensor.Tensor) {
			cfg := configOf(t, "count", 0, port("STEPS", tensor.Int64, 1), port("COUNT", tensor.Int64, 1))
			return cfg, []tensor.Tensor{int64s("STEPS", tensor.Shape{1}, 1<<40)}
		},
		Broken: func(t *testing.T) backend.Config {
			return configOf(t, "opset", 0, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
		},
	})
}
