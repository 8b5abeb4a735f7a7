package repeat_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

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
			c.Inputs = c.Inputs[:1]
			return c
		},
	})
}

// sink keeps the responses of one request.
type sink struct {
	responses int
	final     bool
}

func (s *sink) Respond(r *backend.Response, final bool) error {
	if r != nil {
		s.responses++
	}
	s.final = s.final || final
	return nil
}

func (*sink) Cancelled() bool { return false }

// A batch of a model that is not decoupled ends when it is interrupted, with an
// error, and without a word to its requests: they are answered with that.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := repeat.New().Open(t.Context(), nil, backend.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		c := config()
		c.Decoupled = false
		m, err := b.Load(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.NewInstance(t.Context(), backend.InstanceConfig{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			delay       uint32
			interrupted bool
		}{{60_000, true}, {500, false}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s := &sink{}
			begin := time.Now()
			err := in.Execute(ctx, &backend.Batch{
				Requests: []*backend.Request{{Ctx: t.Context(), Responder: s, Inputs: inputs(1, c.delay, 0)}},
				Size:     1,
			})
			if took := time.Since(begin); took > time.Second || (err != nil) != c.interrupted || s.final == c.interrupted ||
				s.responses == 0 != c.interrupted {
				t.Errorf("delay %d: %v after %v, %d responses, final %v", c.delay, err, took, s.responses, s.final)
			}
			cancel()
		}
		for _, close := range []func() error{in.Close, m.Close, b.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
}
