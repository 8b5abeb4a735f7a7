package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// TestSameAnswers: what is asked over HTTP and over gRPC has one form.
func TestSameAnswers(t *testing.T) {
	log, err := neso.OpenLog(neso.LogSettings{Output: &strings.Builder{}})
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, func(s *neso.Server) { s.Logger, s.Log = nil, log })
	overHTTP, overGRPC := open(t, client.New(a["http"])), open(t, client.New("grpc://"+a["grpc"]))
	if _, err := overHTTP.Infer(t.Context(), one()); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, ask := range map[string]func(c *client.Client) (any, error){
		"server": func(c *client.Client) (any, error) { return c.ServerInfo(ctx) },
		"model":  func(c *client.Client) (any, error) { return c.ModelMetadata(ctx, "id", "") },
		"config": func(c *client.Client) (any, error) { return configOf(c.ModelConfig(ctx, "id", "")) },
		"stats":  func(c *client.Client) (any, error) { return c.ModelStatistics(ctx, "id", "1") },
		"all":    func(c *client.Client) (any, error) { return c.ModelStatistics(ctx, "", "") },
		"index":  func(c *client.Client) (any, error) { return c.Index(ctx, false) },
		"log": func(c *client.Client) (any, error) {
			return plain(c.LogSettings(ctx, map[string]any{"log_verbose_level": 2}))
		},
		"trace": func(c *client.Client) (any, error) { return plain(c.TraceSettings(ctx, "", nil)) },
		"changed": func(c *client.Client) (any, error) {
			return plain(c.TraceSettings(ctx, "id", map[string]any{"trace_rate": "5"}))
		},
		"cleared": func(c *client.Client) (any, error) {
			return plain(c.TraceSettings(ctx, "id", map[string]any{"trace_rate": nil}))
		},
		"regions": func(c *client.Client) (any, error) { return c.SystemSharedMemory(ctx) },
		"devices": func(c *client.Client) (any, error) { return c.CUDASharedMemory(ctx) },
		"live":    func(c *client.Client) (any, error) { return c.Live(ctx) },
		"ready":   func(c *client.Client) (any, error) { return c.Ready(ctx) },
	} {
		want, err := ask(overHTTP)
		got, bad := ask(overGRPC)
		if err != nil || bad != nil {
			t.Errorf("%s: %v, %v", name, err, bad)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s over gRPC: %s", name, diff)
		}
	}
	stats, err := overGRPC.ModelStatistics(ctx, "id", "1")
	if err != nil || len(stats) != 1 || stats[0].InferenceCount != 1 || stats[0].Inference.Success.Mean() <= 0 {
		t.Errorf("%v: %+v", err, stats)
	}
}

func plain(text json.RawMessage, err error) (any, error) {
	var value any
	return value, errors.Join(err, json.Unmarshal(text, &value))
}

// configOf is what both forms of a configuration have.
func configOf(text json.RawMessage, err error) (any, error) {
	var c struct {
		Name, Backend string
		MaxBatchSize  int `json:"max_batch_size"`
		Input         []struct {
			Name     string
			DataType string `json:"data_type"`
			Dims     []int64
			Optional bool
		}
	}
	err = errors.Join(err, json.Unmarshal(text, &c))
	if err == nil && len(c.Input) != 2 {
		err = fmt.Errorf("%d inputs", len(c.Input))
	}
	return c, err
}

// one is a request to model id.
func one() *client.Request {
	x := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1, 3}, Values: []int32{1, 3, 2}}
	return &client.Request{Model: "id", Inputs: []client.Input{x.Input()}, Outputs: []string{"X"}}
}

func TestTensors(t *testing.T) {
	both(t, func(t *testing.T, c *client.Client) {
		back(t, c, "BOOL", []bool{true, false})
		back(t, c, "UINT8", []uint8{0, 255})
		back(t, c, "UINT16", []uint16{0, 1<<16 - 1})
		back(t, c, "UINT32", []uint32{0, 1<<32 - 1})
		back(t, c, "UINT64", []uint64{0, 1<<64 - 1})
		back(t, c, "INT8", []int8{-128, 127})
		back(t, c, "INT16", []int16{-1 << 15, 1})
		back(t, c, "INT32", []int32{-1 << 31, 1})
		back(t, c, "INT64", []int64{-1 << 63, 1})
		back(t, c, "FP16", []tensor.Float16{tensor.NewFloat16(1.5), tensor.NewFloat16(-2)})
		back(t, c, "BF16", []tensor.BFloat16{tensor.NewBFloat16(1.5), tensor.NewBFloat16(-2)})
		back(t, c, "FP32", []float32{1.5, -2})
		back(t, c, "FP64", []float64{1.5, -2})
		back(t, c, "STRING", []string{"", "text with \x00 and ü"})
	})
}

// back sends values to a model of their datatype, which gives them back.
func back[T tensor.Element](t *testing.T, c *client.Client, datatype string, values []T) {
	t.Helper()
	model := "of_" + datatype
	io := fmt.Sprintf(`[{"name": "X", "data_type": "TYPE_%s", "dims": [-1]}]`, datatype)
	config := fmt.Sprintf(`{"name": %q, "backend": "identity", "input": %s, "output": %s}`, model, io, io)
	if err := c.Load(t.Context(), model, &client.Override{Config: config, Files: map[string][]byte{"1/x": nil}}); err != nil {
		t.Fatal(err)
	}
	given := client.Tensor[T]{Name: "X", Shape: tensor.Shape{int64(len(values))}, Values: values}
	resp, err := c.Infer(t.Context(), &client.Request{Model: model, Inputs: []client.Input{given.Input()}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Read[T](resp, "X")
	if diff := cmp.Diff(given, got); err != nil || diff != "" {
		t.Errorf("%s: %v %s", datatype, err, diff)
	}
	if _, err := client.Read[T](resp, "Y"); err == nil {
		t.Error("an output that is not there: no error")
	}
	if _, err := client.Read[uint8](resp, "X"); err == nil && datatype != "UINT8" {
		t.Errorf("%s read as UINT8: no error", datatype)
	}
}

func TestClasses(t *testing.T) {
	both(t, func(t *testing.T, c *client.Client) {
		q := one()
		q.Classes = map[string]int{"X": 2}
		resp, err := c.Infer(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Read[string](resp, "X")
		if want := []string{"3:1", "2:2"}; err != nil || !cmp.Equal(got.Values, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
}

// repeated is a request to model repeat, with so long a pause before each response.
func repeated(id string, delay time.Duration, values ...int32) *client.Request {
	delays := make([]uint32, len(values))
	for i := range delays {
		delays[i] = uint32(delay.Milliseconds())
	}
	shape := tensor.Shape{int64(len(values))}
	return &client.Request{Model: "repeat", ID: id, Inputs: []client.Input{
		client.Tensor[int32]{Name: "IN", Shape: shape, Values: values}.Input(),
		client.Tensor[uint32]{Name: "DELAY", Shape: shape, Values: delays}.Input(),
		client.Tensor[uint32]{Name: "WAIT", Shape: tensor.Shape{1}, Values: []uint32{0}}.Input(),
	}}
}

func TestInferStream(t *testing.T) {
	both(t, func(t *testing.T, c *client.Client) {
		var got []int32
		for r, err := range c.InferStream(t.Context(), repeated("a", 0, 5, 6, 7)) {
			if err != nil {
				t.Fatal(err)
			}
			out, err := client.Read[int32](r, "OUT")
			if err != nil || r.ID != "a" || r.Model != "repeat" || !out.Shape.Equal(tensor.Shape{1}) {
				t.Fatalf("%v: %+v", err, r)
			}
			if got = append(got, out.Values...); len(got) == 2 {
				continue
			}
		}
		if want := []int32{5, 6, 7}; !cmp.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		n := 0
		for r, err := range c.InferStream(t.Context(), one()) { // one of any model
			if x, bad := client.Read[int32](r, "X"); err != nil || bad != nil || !cmp.Equal(x.Values, []int32{1, 3, 2}) ||
				!x.Shape.Equal(tensor.Shape{1, 3}) {
				t.Errorf("%v %v: %+v", err, bad, x)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d responses", n)
		}
		q := one()
		q.Model = "nobody"
		for r, err := range c.InferStream(t.Context(), q) {
			var answer *client.Error
			if r != nil || !errors.As(err, &answer) || !strings.Contains(answer.Message, "nobody") {
				t.Errorf("got %v, %v", r, err)
			}
		}
	})
}

// TestShapeOfAStream: a flat list has no shape, so one that the server would not make
// of it is refused before it is sent.
func TestShapeOfAStream(t *testing.T) {
	q := repeated("", 0, 5, 6)
	q.Inputs[0].Shape = tensor.Shape{1, 2}
	for _, err := range server(t, "127.0.0.1:0").InferStream(t.Context(), q) {
		if err == nil || !strings.Contains(err.Error(), `input "IN": a stream over HTTP takes 2 elements as [2], not as [1,2]`) {
			t.Errorf("got %v", err)
		}
	}
}

// TestLeftStreams: who leaves a range, or whose context ends, leaves nothing behind.
func TestLeftStreams(t *testing.T) {
	both(t, func(t *testing.T, c *client.Client) {
		for r, err := range c.InferStream(t.Context(), repeated("", 0, 1, 2, 3)) {
			if err != nil || r == nil {
				t.Error(err)
			}
			break
		}
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if errors.Is(want, context.Canceled) {
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, cancel)
			}
			for r, err := range c.InferStream(ctx, repeated("", time.Hour, 1)) {
				if r != nil || !errors.Is(err, want) {
					t.Errorf("got %v, %v, want %v", r, err, want)
				}
			}
			if _, err := c.Infer(ctx, one()); !errors.Is(err, want) {
				t.Errorf("infer: got %v, want %v", err, want)
			}
			cancel()
		}
	})
}

func TestStream(t *testing.T) {
	a := start(t, nil)
	c := open(t, client.New("grpc://"+a["grpc"]))
	s, err := c.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := repeated("1", 0, 8, 9)
	first.EmptyFinal = true
	wrong := one()
	wrong.Model = "nobody"
	for _, q := range []*client.Request{first, wrong, one()} {
		if err := s.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var values []int32
	finals, faults, others := 0, 0, 0
	for r, err := range s.Responses() {
		switch {
		case err != nil:
			faults++
			if !strings.Contains(err.Error(), "nobody") {
				t.Error(err)
			}
		case r.Model == "id":
			others++
		case r.Final && len(r.Outputs) == 0:
			finals++
		default:
			out, err := client.Read[int32](r, "OUT")
			if err != nil || r.ID != "1" {
				t.Errorf("%v: %+v", err, r)
			}
			values = append(values, out.Values...)
		}
	}
	if !cmp.Equal(values, []int32{8, 9}) || finals != 1 || faults != 1 || others != 1 {
		t.Errorf("%v, %d final, %d errors, %d others", values, finals, faults, others)
	}
	if _, err := open(t, client.New(a["http"])).Stream(t.Context()); err == nil || !strings.Contains(err.Error(), "needs gRPC") {
		t.Errorf("over HTTP: got %v", err)
	}
	for name, ask := range map[string]func() error{
		"Readiness": func() error { _, err := c.Readiness(t.Context()); return err },
		"Generate":  func() error { _, err := c.Generate(t.Context(), "repeat", "", nil); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), name+" needs HTTP") {
			t.Errorf("over gRPC: got %v", err)
		}
	}
}

func TestGenerate(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	fields := map[string]any{"IN": []int{4, 5}, "DELAY": []int{0, 0}, "WAIT": 0, "id": "g"}
	n := 0
	for text, err := range c.Generated(t.Context(), "repeat", "", fields) {
		var event struct {
			OUT, IDX int
			ID       string
		}
		if err = errors.Join(err, json.Unmarshal(text, &event)); err != nil || event.OUT != 4+n || event.IDX != n || event.ID != "g" {
			t.Fatalf("%v: %s", err, text)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
	fields["IN"], fields["DELAY"] = 4, 0
	if text, err := c.Generate(t.Context(), "repeat", "1", fields); err != nil || !strings.Contains(string(text), `"OUT":4`) {
		t.Errorf("%s, %v", text, err)
	}
	fields["IN"], fields["DELAY"] = []int{1, 2}, []int{0, 0}
	var answer *client.Error
	if _, err := c.Generate(t.Context(), "repeat", "", fields); !errors.As(err, &answer) {
		t.Errorf("two responses: got %v", err)
	}
	for _, err := range c.Generated(t.Context(), "nobody", "", fields) {
		if !errors.As(err, &answer) || answer.Code != codes.NotFound && answer.Code != codes.InvalidArgument {
			t.Errorf("got %v", err)
		}
	}
}
