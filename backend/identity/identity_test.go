package identity_test

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func io(name string, d tensor.Datatype) backend.IO {
	return backend.IO{Name: name, Datatype: d, Dims: tensor.Shape{-1}}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: identity.New(),
		Identity: func(_ *testing.T, d tensor.Datatype, size int) backend.Config {
			return backend.Config{MaxBatchSize: size, Inputs: []backend.IO{io("IN", d)}, Outputs: []backend.IO{io("OUT", d)}}
		},
		Broken: func(*testing.T) backend.Config {
			return backend.Config{Inputs: []backend.IO{io("IN", tensor.FP32)}, Outputs: []backend.IO{io("OUT", tensor.FP16)}}
		},
		Slow: nil, // the delay is the instance's, not the request's
	})
}

func TestLoad(t *testing.T) {
	b, err := identity.New().Open(t.Context(), nil, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cfg  backend.Config
		want string
	}{
		"by suffix": {cfg: backend.Config{
			Inputs:  []backend.IO{io("INPUT0", tensor.FP32), io("INPUT1", tensor.Int8)},
			Outputs: []backend.IO{io("OUTPUT1", tensor.Int8), io("OUTPUT0", tensor.FP32)},
		}},
		"by order": {cfg: backend.Config{
			Inputs:  []backend.IO{io("A", tensor.FP32), io("B", tensor.Int8)},
			Outputs: []backend.IO{io("C", tensor.FP32), io("D", tensor.Int8)},
		}},
		"no partner": {cfg: backend.Config{Name: "m", Outputs: []backend.IO{io("C", tensor.FP32)}}, want: "no input for output 'C'"},
		"datatypes": {
			cfg:  backend.Config{Inputs: []backend.IO{io("A", tensor.FP32)}, Outputs: []backend.IO{io("C", tensor.Int8)}},
			want: "expected input and output datatype to match, got FP32 for 'A' and INT8 for 'C'",
		},
		"no number": {cfg: backend.Config{Parameters: map[string]string{"execute_delay_ms": "x"}}, want: "'execute_delay_ms' with value 'x'"},
		"all settings": {cfg: backend.Config{Parameters: map[string]string{
			"execute_delay_ms": "1", "instance_wise_delay_multiplier": "2",
			"creation_delay_sec": "0",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Load(t.Context(), test.cfg)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
