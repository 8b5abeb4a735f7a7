package error_test

import (
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	errorbackend "github.com/nesoserve/neso/backend/error"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func config(size int, d tensor.Datatype, parameters map[string]string) backend.Config {
	return backend.Config{
		MaxBatchSize: size, Parameters: parameters,
		Inputs:  []backend.IO{{Name: "IN", Datatype: d, Dims: tensor.Shape{-1}}},
		Outputs: []backend.IO{{Name: "OUT", Datatype: d, Dims: tensor.Shape{-1}}},
	}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: errorbackend.New(),
		Identity: func(_ *testing.T, d tensor.Datatype, size int) backend.Config {
			return config(size, d, map[string]string{"at": "never"})
		},
		Failing: func(*testing.T) backend.Config {
			return config(8, tensor.Int32, map[string]string{"only_negative": "true", "code": "UNAVAILABLE"})
		},
		Broken: func(*testing.T) backend.Config {
			return config(8, tensor.Int32, map[string]string{"at": "instance"})
		},
	})
}
