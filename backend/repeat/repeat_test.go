package repeat_test

import (
	"encoding/binary"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/repeat"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func config() backend.Config {
	return backend.Config{
		Decoupled: true,
		Inputs: []backend.IO{
			{Name: "IN", Datatype: tensor.Int32, Dims: tensor.Shape{-1}},
			{Name: "DELAY", Datatype: tensor.Uint32, Dims: tensor.Shape{-1}},
			{Name: "WAIT", Datatype: tensor.Uint32, Dims: tensor.Shape{1}},
		},
		Outputs: []backend.IO{
			{Name: "OUT", Datatype: tensor.Int32, Dims: tensor.Shape{1}},
			{Name: "IDX", Datatype: tensor.Uint32, Dims: tensor.Shape{1}},
		},
	}
}

func inputs(n int, delay, wait uint32) []tensor.Tensor {
	var values, delays []byte
	for i := range n {
		values = binary.LittleEndian.AppendUint32(values, uint32(i))
		delays = binary.LittleEndian.AppendUint32(delays, delay)
	}
	return []tensor.Tensor{
		{Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{int64(n)}, Data: values},
		{Name: "DELAY", Datatype: tensor.Uint32, Shape: tensor.Shape{int64(n)}, Data: delays},
		{Name: "WAIT", Datatype: tensor.Uint32, Shape: tensor.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, wait)},
	}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver:    repeat.New(),
		Decoupled: func(_ *testing.T, n int) (backend.Config, []tensor.Tensor) { return config(), inputs(n, 0, 1) },
		Slow:      func(*testing.T) (backend.Config, []tensor.Tensor) { return config(), inputs(2, 60_000, 0) },
		Broken: func(*testing.T) backend.Config {
			c := config()
			c.Decoupled = false
			return c
		},
	})
}
