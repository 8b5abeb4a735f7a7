package neso_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/backend/repeat"
	"github.com/nesoserve/neso/tensor"
)

const identityConfig = `backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
`

const repeatConfig = `backend: "repeat"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }, { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
`

// repository writes models, given as name and config.pbtxt.
func repository(t *testing.T, models map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, config := range models {
		if err := os.MkdirAll(filepath.Join(dir, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func start(t *testing.T, s *neso.Server, more ...backend.Driver) {
	t.Helper()
	s.Backends = append([]backend.Driver{identity.New(), repeat.New()}, more...)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func floats(name string, values ...float32) tensor.Tensor {
	t := tensor.Tensor{Name: name, Datatype: tensor.FP32, Shape: tensor.Shape{int64(len(values))}}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

func TestInferWithoutAListener(t *testing.T) {
	s := &neso.Server{ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig})}}
	start(t, s)
	in := floats("X", 1, 2, 3)
	resp, err := s.Infer(t.Context(), neso.Request{Model: "id", Inputs: []tensor.Tensor{in}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Release()
	if out := resp.Outputs[0]; out.Name != "Y" || !bytes.Equal(out.Data, in.Data) || !out.Shape.Equal(in.Shape) {
		t.Errorf("got %+v", out)
	}
	for name, q := range map[string]neso.Request{
		"Request for unknown model: 'nope' is not found":         {Model: "nope"},
		"Request for unknown model: 'id' version 7 is not found": {Model: "id", Version: 7},
		"unexpected inference output 'Q' for model 'id'":         {Model: "id", Inputs: []tensor.Tensor{in}, Outputs: []string{"Q"}},
		"input byte size mismatch for input 'X' for model 'id'. Expected 8": {
			Model:  "id",
			Inputs: []tensor.Tensor{{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{2}, Data: in.Data}},
		},
	} {
		_, err := s.Infer(t.Context(), q)
		if e := (*backend.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

func TestStream(t *testing.T) {
	s := &neso.Server{ModelRepositories: []string{repository(t, map[string]string{"repeat": repeatConfig})}}
	start(t, s)
	numbers := func(name string, d tensor.Datatype, values ...uint32) tensor.Tensor {
		x := tensor.Tensor{Name: name, Datatype: d, Shape: tensor.Shape{int64(len(values))}}
		for _, v := range values {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, v)
		}
		return x
	}
	q := neso.Request{Model: "repeat", Inputs: []tensor.Tensor{
		numbers("IN", tensor.Int32, 5, 6, 7), numbers("DELAY", tensor.Uint32, 0, 0, 0),
		numbers("WAIT", tensor.Uint32, 0),
	}}
	var got []uint32
	collect := func(limit int) func(*backend.Response) bool {
		return func(r *backend.Response) bool {
			defer r.Release()
			got = append(got, binary.LittleEndian.Uint32(r.Outputs[0].Data))
			return len(got) < limit
		}
	}
	if err := s.Stream(t.Context(), q, collect(10)); err != nil || len(got) != 3 || got[2] != 7 {
		t.Errorf("got %v, %v", got, err)
	}
	got = nil
	if err := s.Stream(t.Context(), q, collect(1)); err != nil || len(got) != 1 {
		t.Errorf("stopped after one: got %v, %v", got, err)
	}
}

func TestHandlerInAMuxOfTheProgram(t *testing.T) {
	s := &neso.Server{ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig})}}
	if s.Handler() != nil {
		t.Error("a handler before Start")
	}
	start(t, s)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/v2/models/id/infer",
		strings.NewReader(`{"inputs":[{"name":"X","datatype":"FP32","shape":[1],"data":[2]}]}`)))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"data":[2.0]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLifecycleOfAServer(t *testing.T) {
	s := &neso.Server{
		ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig})},
		HTTP:              neso.HTTP{Address: "127.0.0.1:0"}, GRPC: neso.GRPC{Address: "127.0.0.1:0"},
		Metrics: neso.Metrics{Address: "127.0.0.1:0"},
	}
	if _, err := s.Infer(t.Context(), neso.Request{Model: "id"}); !errors.Is(err, neso.ErrNotRunning) {
		t.Errorf("before Start: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close before Start: %v", err)
	}
	start(t, s)
	if err := s.Start(t.Context()); err == nil {
		t.Error("a second Start succeeds")
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Infer(t.Context(), neso.Request{Model: "id"}); err == nil {
		t.Error("a closed server answers")
	}
}

// TestFailedStartLeavesNothing: goleak sees what is left behind.
func TestFailedStartLeavesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := repository(t, map[string]string{"id": identityConfig})
	for name, c := range map[string]struct {
		server neso.Server
		want   string
	}{
		"taken port": {neso.Server{
			ModelRepositories: []string{good}, HTTP: neso.HTTP{Address: "127.0.0.1:0"},
			GRPC: neso.GRPC{Address: taken.Addr().String()},
		}, "failed to start GRPC service: Unavailable - Socket '" + taken.Addr().String() +
			"' already in use"},
		"broken model": {neso.Server{
			ModelRepositories: []string{repository(t, map[string]string{"bad": "nonsense: 1"})},
			HTTP:              neso.HTTP{Address: "127.0.0.1:0"},
		}, "nonsense"},
		"no backend":   {neso.Server{ModelRepositories: []string{repository(t, map[string]string{"bad": `backend: "nope"`})}}, "nope"},
		"no directory": {neso.Server{ModelRepositories: []string{"/no/such/directory"}}, "/no/such/directory"},
		"bad pattern": {
			neso.Server{ModelRepositories: []string{good}, HTTP: neso.HTTP{Address: "127.0.0.1:0", HeaderForwardPattern: "("}},
			"missing closing",
		},
		"bad host": {
			neso.Server{ModelRepositories: []string{good}, HTTP: neso.HTTP{Address: "127.0.0.1:0", TrustedHosts: []string{"a[b"}}},
			"syntax error in pattern",
		},
		"bad word": {neso.Server{ModelRepositories: []string{good}, ModelLoads: "sometimes"}, `unknown ModelLoads "sometimes"`},
		"transport": {
			neso.Server{ModelRepositories: []string{good}, GRPC: neso.GRPC{Transport: "grpc"}},
			`unknown GRPC.Transport "grpc", expected "neso" or "library"`,
		},
		"bad metrics": {neso.Server{ModelRepositories: []string{good}, Metrics: neso.Metrics{Config: []string{"x"}}}, "--metrics-config"},
	} {
		c.server.Backends = []backend.Driver{identity.New()}
		if err := c.server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &neso.Server{
		ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig})},
		Backends:          []backend.Driver{identity.New()},
	}
	if err := s.Run(ctx); err == nil {
		t.Error("a start with an ended context succeeds")
	}
}
