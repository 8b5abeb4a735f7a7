package model

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// view makes the backend's view of a configuration, as the engine does.
func view(c *modelconfig.Config) backend.Config {
	v := backend.Config{Name: c.Name, Version: 1, MaxBatchSize: c.MaxBatchSize, Parameters: c.Parameters, Decoupled: c.Decoupled}
	for _, in := range c.Inputs {
		d := in.Dims
		if in.HasReshape {
			d = in.Reshape
		}
		v.Inputs = append(v.Inputs, backend.IO{Name: in.Name, Datatype: in.Datatype, Dims: d, Optional: in.Optional})
	}
	for _, out := range c.Outputs {
		d := out.Dims
		if out.HasReshape {
			d = out.Reshape
		}
		v.Outputs = append(v.Outputs, backend.IO{Name: out.Name, Datatype: out.Datatype, Dims: d})
	}
	count := 1
	if len(c.Groups) > 0 {
		count = c.Groups[0].Count
	}
	for i := range count {
		v.Instances = append(v.Instances, backend.InstanceConfig{Name: c.Name + "_0_" + string(rune('0'+i)), Kind: "KIND_CPU"})
	}
	return v
}

func identityConfig() *modelconfig.Config {
	return &modelconfig.Config{
		Name: "m", Backend: "identity",
		Inputs:  []modelconfig.Input{{Name: "INPUT0", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}},
		Outputs: []modelconfig.Output{{Name: "OUTPUT0", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}},
	}
}

func open(t testing.TB, c *modelconfig.Config, d backend.Driver, change ...func(*Options)) (*Model, error) {
	t.Helper()
	b, err := d.Open(context.Background(), nil, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, BackendConfig: view(c), Backend: b, Allocator: memory.New(memory.Options{})}
	for _, f := range change {
		f(&o)
	}
	return Open(context.Background(), o)
}

func mustOpen(t testing.TB, c *modelconfig.Config, d backend.Driver, change ...func(*Options)) *Model {
	t.Helper()
	m, err := open(t, c, d, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

func fp32(name string, shape ...int64) tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	data := make([]byte, 4*n)
	for i := range int(n) {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(i))
	}
	return tensor.Tensor{Name: name, Datatype: tensor.FP32, Shape: shape, Data: data}
}

// request makes a pinned request.
func request(t testing.TB, m *Model, sink infer.Sink, inputs ...tensor.Tensor) *infer.Request {
	t.Helper()
	if !m.Pin() {
		t.Fatal("the model is closing")
	}
	r := infer.New(sink, func(*infer.Request) { m.Unpin() })
	r.Ctx = t.Context()
	r.Owner = m
	r.Inputs = inputs
	r.Times.Start = backend.Now()
	return r
}

// ask infers and waits.
func ask(t testing.TB, m *Model, change func(*infer.Request), inputs ...tensor.Tensor) (*backend.Response, error) {
	t.Helper()
	sink := infer.NewSingle()
	r := request(t, m, sink, inputs...)
	if change != nil {
		change(r)
	}
	if err := m.Infer(r); err != nil {
		r.Discard()
		return nil, err
	}
	resp, err := sink.Wait()
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func TestInferIdentity(t *testing.T) {
	m := mustOpen(t, identityConfig(), identity.New())
	resp, err := ask(t, m, nil, fp32("INPUT0", 4))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Outputs[0]; got.Name != "OUTPUT0" || got.Shape.String() != "[4]" || len(got.Data) != 16 {
		t.Errorf("output %+v", got)
	}
	resp.Release()
	s := m.Stats().Snapshot()
	if s.Success.Count != 1 || s.ExecutionCount != 1 || s.InferenceCount != 1 || s.Pending != 0 || m.Inflight() != 0 {
		t.Errorf("statistics %+v, in flight %d", s, m.Inflight())
	}
}

func TestCloseRefusesAndWaits(t *testing.T) {
	c := identityConfig()
	c.Parameters = map[string]string{"execute_delay_ms": "50"}
	m := mustOpen(t, c, identity.New())
	got := make(chan error, 1)
	go func() {
		_, err := ask(t, m, nil, fp32("INPUT0", 1))
		got <- err
	}()
	for m.Inflight() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if m.Pin() {
		t.Error("Pin after Close")
	}
	if err := m.Ready(); err == nil || !strings.Contains(err.Error(), "being unloaded") {
		t.Errorf("Ready after Close: %v", err)
	}
}

func ready(ctx context.Context, r *infer.Request, m *Model, inputs []tensor.Tensor) *infer.Request {
	r.Ctx, r.Owner, r.Inputs = ctx, m, inputs
	r.Times.Start = backend.Now()
	return r
}

func BenchmarkInferIdentity(b *testing.B) {
	m := mustOpen(b, identityConfig(), identity.New())
	sink := infer.NewSingle()
	ctx := context.Background()
	one := fp32("INPUT0", 16)
	inputs := make([]tensor.Tensor, 1)
	done := func(*infer.Request) { m.Unpin() }
	b.ReportAllocs()
	for b.Loop() {
		m.Pin()
		inputs[0] = one // ending a request clears them
		r := ready(ctx, infer.New(sink, done), m, inputs)
		if err := m.Infer(r); err != nil {
			r.Discard()
			b.Fatal(err)
		}
		resp, err := sink.Wait()
		if err != nil {
			b.Fatal(err)
		}
		resp.Release()
	}
}
