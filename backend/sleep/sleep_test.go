package sleep_test

import (
	"encoding/binary"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/sleep"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func io(name string, d tensor.Datatype) []backend.IO {
	return []backend.IO{{Name: name, Datatype: d, Dims: tensor.Shape{-1}}}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: sleep.New(),
		Identity: func(_ *testing.T, d tensor.Datatype, size int) backend.Config {
			return backend.Config{MaxBatchSize: size, Inputs: io("IN", d), Outputs: io("OUT", d), Parameters: map[string]string{"sleep_ms": "1"}}
		},
		Slow: func(*testing.T) (backend.Config, []tensor.Tensor) {
			return backend.Config{Inputs: io(sleep.Input, tensor.Int32)}, []tensor.Tensor{{
				Name: sleep.Input, Datatype: tensor.Int32, Shape: tensor.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, 60_000),
			}}
		},
		Broken: func(*testing.T) backend.Config {
			return backend.Config{Parameters: map[string]string{"sleep_ms": "-1"}}
		},
	})
}
