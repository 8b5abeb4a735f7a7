package square_test

import (
	"encoding/binary"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/square"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func config() backend.Config {
	return backend.Config{
		Decoupled: true,
		Inputs:    []backend.IO{{Name: "IN", Datatype: tensor.Int32, Dims: tensor.Shape{1}}},
		Outputs:   []backend.IO{{Name: "OUT", Datatype: tensor.Int32, Dims: tensor.Shape{1}}},
	}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: square.New(),
		Decoupled: func(_ *testing.T, n int) (backend.Config, []tensor.Tensor) {
			return config(), []tensor.Tensor{{
				Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, uint32(n)),
			}}
		},
		Broken: func(*testing.T) backend.Config {
			c := config()
			c.Outputs[0].Datatype = tensor.FP32
			return c
		},
	})
}
