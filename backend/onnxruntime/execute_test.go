package onnxruntime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

func TestAnswers(t *testing.T) {
	d, _ := open(t, nil)
	fp := func(name string, dims ...int64) backend.IO { return port(name, tensor.FP32, dims...) }
	x := floats("IN", tensor.Shape{3}, 1, 0, 3)
	for _, c := range []struct {
		name    string
		model   string
		batch   int
		ios     []backend.IO
		rows    int
		outputs []string
		inputs  []tensor.Tensor
		want    string
	}{
		{
			"all outputs", "add_sub", 4,
			[]backend.IO{fp("INPUT0", 16), fp("INPUT1", 16), {}, fp("OUTPUT0", 16), fp("OUTPUT1", 16)},
			1,
			[]string{"OUTPUT1", "OUTPUT0"},
			[]tensor.Tensor{
				floats("INPUT1", tensor.Shape{1, 16}, make([]float32, 16)...),
				floats("INPUT0", tensor.Shape{1, 16}, make([]float32, 16)...),
			},
			"OUTPUT0 [1,16] [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]; OUTPUT1 [1,16] [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]",
		},
		{
			"one output", "through", 0,
			[]backend.IO{fp("IN", -1), fp("NEG", -1), fp("IN", -1)},
			0,
			[]string{"NEG"},
			[]tensor.Tensor{x},
			"NEG [3] [-1 -0 -3]",
		},
		{
			"an input handed through", "through", 0,
			[]backend.IO{fp("IN", -1), fp("NEG", -1), fp("IN", -1)},
			0,
			[]string{"IN"},
			[]tensor.Tensor{x},
			"IN [3] [1 0 3]",
		},
		{
			"constants", "constant", 0,
			[]backend.IO{fp("IN", -1), fp("NEG", -1), fp("C", 2), fp("E", 2)},
			0,
			[]string{"NEG", "C", "E"},
			[]tensor.Tensor{x},
			"NEG [3] [-1 -0 -3]; C [2] [7 8]; E [2] [8 9]",
		},
		{
			"a shape only the run knows", "nonzero", 0,
			[]backend.IO{fp("IN", -1), port("OUT", tensor.Int64, 1, -1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{x},
			"OUT [1,2] [0 2]",
		},
		{
			"nothing found", "nonzero", 0,
			[]backend.IO{fp("IN", -1), port("OUT", tensor.Int64, 1, -1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{floats("IN", tensor.Shape{2}, 0, 0)},
			"OUT [1,0] []",
		},
		{
			"a shape that the model promises wrongly", "twice", 0,
			[]backend.IO{fp("IN", -1), fp("OUT", -1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{x},
			"OUT [6] [1 0 3 1 0 3]",
		},
		{
			"scalars are [1] in a configuration", "scalar", 0,
			[]backend.IO{fp("IN", -1), fp("K", 1), {}, fp("OUT", 1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{x, floats("K", tensor.Shape{1}, 10)},
			"OUT [1] [40]",
		},
		{
			"an empty reshape", "column", 8,
			[]backend.IO{fp("IN", 1), fp("OUT")},
			3,
			[]string{"OUT"},
			[]tensor.Tensor{floats("IN", tensor.Shape{3, 1}, 1, 2, 3)},
			"OUT [3] [1 2 3]",
		},
		{
			"an optional input left out", "optional", 0,
			[]backend.IO{fp("A", -1), optional(fp("B", 1)), {}, fp("OUT", -1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{floats("A", tensor.Shape{2}, 1, 2)},
			"OUT [2] [11 12]",
		},
		{
			"an optional input given", "optional", 0,
			[]backend.IO{fp("A", -1), optional(fp("B", 1)), {}, fp("OUT", -1)},
			0,
			[]string{"OUT"},
			[]tensor.Tensor{floats("A", tensor.Shape{2}, 1, 2), floats("B", tensor.Shape{1}, 100)},
			"OUT [2] [101 102]",
		},
		{
			"no rows", "identity_fp32", 8,
			[]backend.IO{fp("IN", -1), fp("OUT", -1)},
			2,
			[]string{"OUT"},
			[]tensor.Tensor{floats("IN", tensor.Shape{2, 0})},
			"OUT [2,0] []",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := start(t, d, configOf(t, c.model, c.batch, c.ios...))
			for range 2 { // the second time with what the first has learnt
				got, err := ask(in, c.rows, c.outputs, c.inputs...)
				if err != nil || got != c.want {
					t.Errorf("got %s, %v, want %s", got, err, c.want)
				}
			}
		})
	}
}

// TestOutputsOutliveTheModel: a front end may still be sending when the model
// and the backend are closed.
func TestOutputsOutliveTheModel(t *testing.T) {
	d, _ := open(t, nil)
	cfg := configOf(t, "nonzero", 0, port("IN", tensor.FP32, -1), port("OUT", tensor.Int64, 1, -1))
	m, err := d.Load(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.NewInstance(t.Context(), cfg.Instances[0])
	if err != nil {
		t.Fatal(err)
	}
	sink := &librarytest.Answers{}
	inputs := []tensor.Tensor{floats("IN", tensor.Shape{3}, 1, 0, 3)}
	r := &backend.Request{Requested: []string{"OUT"}, Inputs: inputs, Responder: sink}
	if err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: 1}); err != nil {
		t.Fatal(err)
	}
	_, _, _ = in.Close(), m.Close(), d.Close()
	if got, err := show1(sink.Got[0]); got != "OUT [1,2] [0 2]" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestBadRequestsAreAnsweredAlone: the requests of a batch that fails run one by
// one; see also the suite.
func TestBadRequestsAreAnsweredAlone(t *testing.T) {
	d, _ := open(t, nil)
	in := start(t, d, configOf(t, "table", 8, port("IN", tensor.Int32, 1), port("OUT", tensor.Int32, 1)))
	_, err := ask(in, 1, []string{"OUT"}, numbers("IN", tensor.Int32, tensor.Shape{1, 1}, []int32{-5}))
	if e := backend.AsError(err); e == nil || e.Code != backend.Internal || !strings.HasPrefix(e.Message, "onnx runtime error 2: ") ||
		!strings.Contains(e.Message, "out of data bounds") {
		t.Errorf("got %v", err)
	}
	if got, err := ask(in, 1, []string{"OUT"}, numbers("IN", tensor.Int32, tensor.Shape{1, 1}, []int32{5})); got != "OUT [1,1] [5]" {
		t.Errorf("after a failure: %s, %v", got, err)
	}
}

// TestARequiredInputThatIsCalledOptional is told by its name when it is missing.
func TestARequiredInputThatIsCalledOptional(t *testing.T) {
	d, _ := open(t, nil)
	in := start(t, d, configOf(t, "optional", 0, optional(port("A", tensor.FP32, -1)), optional(port("B", tensor.FP32, 1)), backend.IO{},
		port("OUT", tensor.FP32, -1)))
	_, err := ask(in, 0, []string{"OUT"}, floats("B", tensor.Shape{1}, 1))
	if e := backend.AsError(err); e == nil || e.Code != backend.InvalidArg || !strings.HasPrefix(e.Message, "input 'A' is missing") {
		t.Errorf("got %v", err)
	}
	if got, err := ask(in, 0, []string{"OUT"}, floats("A", tensor.Shape{1}, 1)); got != "OUT [1] [11]" {
		t.Errorf("then: %s, %v", got, err)
	}
}

func TestCancelledWhileRunning(t *testing.T) {
	d, _ := open(t, nil)
	in := start(t, d, configOf(t, "count", 0, port("STEPS", tensor.Int64, 1), port("COUNT", tensor.Int64, 1)))
	if got, err := ask(in, 0, []string{"COUNT"}, int64s("STEPS", tensor.Shape{1}, 1000)); got != "COUNT [1] [1000]" {
		t.Fatalf("%s, %v", got, err)
	}
	inputs := []tensor.Tensor{int64s("STEPS", tensor.Shape{1}, 1<<50)}
	r := &backend.Request{Requested: []string{"COUNT"}, Inputs: inputs, Responder: &librarytest.Answers{Gone: true}}
	err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: 1})
	if e := backend.AsError(err); e == nil || e.Code != backend.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as when the model is closed while it runs
	r.Responder = &librarytest.Answers{}
	if e := backend.AsError(in.Execute(ctx, &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: 1})); e == nil ||
		e.Code != backend.Cancelled {
		t.Errorf("closed: %v", err)
	}
	if got, err := ask(in, 0, []string{"COUNT"}, int64s("STEPS", tensor.Shape{1}, 5)); got != "COUNT [1] [5]" {
		t.Errorf("after a cancelled run: %s, %v", got, err)
	}
}

// TestModelFileSwapped: what has been loaded goes on, whatever becomes of the
// file; a new load sees the new one.
func TestModelFileSwapped(t *testing.T) {
	d, _ := open(t, nil)
	cfg := configOf(t, "optional", 0, port("A", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
	in := start(t, d, cfg)
	path := filepath.Join(cfg.VersionDirectory, defaultFilename)
	for _, content := range [][]byte{[]byte("garbage"), {}, bytes.Repeat([]byte{8}, 1<<20)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ask(in, 0, []string{"OUT"}, floats("A", tensor.Shape{1}, 1)); got != "OUT [1] [11]" {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := d.Load(t.Context(), cfg); err == nil {
			t.Error("the new content was loaded")
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(in, 0, []string{"OUT"}, floats("A", tensor.Shape{1}, 1)); got != "OUT [1] [11]" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestInstancesShareASession: the instances of a version run at the same time on
// one session, and have their own with share_session: 0.
func TestInstancesShareASession(t *testing.T) {
	for _, share := range []bool{true, false} {
		d, _ := open(t, nil)
		cfg := configOf(t, "table", 8, port("IN", tensor.Int32, 1), port("OUT", tensor.Int32, 1))
		if !share {
			cfg.Parameters[paramShare] = "0"
		}
		cfg.Instances = nil
		for i := range 4 {
			cfg.Instances = append(cfg.Instances, backend.InstanceConfig{Name: fmt.Sprint("model_0_", i), Kind: "KIND_CPU"})
		}
		m, err := d.Load(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		sessions := map[*session]bool{}
		var running sync.WaitGroup
		var instances []*instance
		for i, c := range cfg.Instances {
			in, err := m.NewInstance(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			one := in.(*instance)
			instances = append(instances, one)
			sessions[one.session] = true
			running.Go(func() {
				for k := range 100 {
					n := int32((i + k) % 10)
					got, err := ask(one, 1, []string{"OUT"}, numbers("IN", tensor.Int32, tensor.Shape{1, 1}, []int32{n}))
					if want := fmt.Sprintf("OUT [1,1] [%d]", n); got != want {
						t.Errorf("got %s, %v, want %s", got, err, want)
						return
					}
				}
			})
		}
		running.Wait()
		if want := map[bool]int{true: 1, false: 4}[share]; len(sessions) != want {
			t.Errorf("share %v: %d sessions, want %d", share, len(sessions), want)
		}
		for _, in := range instances {
			_ = in.Close()
		}
		_ = m.Close()
		for s := range sessions {
			if n := s.uses.Load(); n != 0 {
				t.Errorf("share %v: a session has %d uses left", share, n)
			}
		}
	}
}
