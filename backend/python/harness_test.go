//go:build unix

package python

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// testHost is a server without models.
type testHost struct{ log *slog.Logger }

func (h *testHost) Allocator() tensor.Allocator { return nil }
func (h *testHost) Logger() *slog.Logger        { return h.log }
func (h *testHost) Infer(*backend.Request) error {
	return backend.Errorf(backend.NotFound, "no models")
}
func (h *testHost) Ready(string, int64) bool { return false }
func (h *testHost) Load(context.Context, string, string, map[string][]byte) error {
	return errors.New("no models")
}
func (h *testHost) Unload(context.Context, string, bool) error { return errors.New("no models") }
func (h *testHost) Activity(string, string, int64)             {}

func (h *testHost) Document(backend.Question) ([]byte, error) { return nil, errors.New("no documents") }

func (h *testHost) MetricFamily(backend.MetricFamily) (func(), error) {
	return nil, errors.New("no metrics")
}

func (h *testHost) Metric(backend.MetricFamily, map[string]string) (backend.Metric, error) {
	return nil, errors.New("no metrics")
}

// testModel is a loaded model with one instance.
type testModel struct {
	t        testing.TB
	driver   *driver
	model    backend.Model
	instance backend.Instance
	cfg      backend.Config
	log      *nesotest.Log
}

type testOptions struct {
	settings  map[string]string
	decoupled bool
	inputs    []backend.IO
	params    map[string]string
	complete  bool
	batch     int
	grace     time.Duration
	finalize  time.Duration
}

var vector = []backend.IO{{Name: "IN", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}}

// newDriver opens the backend; it is closed at the end of the test, which also
// checks that no process is left. Where the settings do not say how long a worker
// may take to start, it may take as long as a busy machine does to import numpy.
func newDriver(t testing.TB, settings map[string]string) (*driver, *nesotest.Log) {
	t.Helper()
	if settings["stub-timeout-seconds"] == "" {
		patient := map[string]string{"stub-timeout-seconds": "300"}
		maps.Copy(patient, settings)
		settings = patient
	}
	log := &nesotest.Log{}
	host := &testHost{log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	b, err := New(Options{Python: nesotest.Python(t), CacheDirectory: t.TempDir()}).Open(t.Context(), host, backend.Settings{Values: settings})
	if err != nil {
		t.Fatal(err)
	}
	d := b.(*driver)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		checkNoChildren(t)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return d, log
}

// checkNoChildren fails when a process of this test is left, zombies included.
func checkNoChildren(t testing.TB) {
	t.Helper()
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range tasks {
		if text, _ := os.ReadFile(f); len(bytes.TrimSpace(text)) > 0 {
			t.Errorf("child processes are left: %s", text)
		}
	}
}

func writeModel(t testing.TB, source string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "m")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	source = "import numpy as np, os, sys, time, signal, threading\nimport triton_python_backend_utils as pb_utils\n" +
		strings.ReplaceAll(source, "\t", "    ")
	if err := os.WriteFile(filepath.Join(dir, "1", "model.py"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func configOf(dir string, o testOptions) backend.Config {
	if o.inputs == nil {
		o.inputs = vector
	}
	var outputs []backend.IO
	for _, in := range o.inputs {
		in.Name = strings.Replace(in.Name, "IN", "OUT", 1)
		outputs = append(outputs, in)
	}
	text, _ := json.Marshal(map[string]any{"name": "m", "max_batch_size": o.batch})
	return backend.Config{
		Name: "m", Version: 1, Directory: dir, VersionDirectory: filepath.Join(dir, "1"), Filename: "model.py", JSON: text,
		MaxBatchSize: o.batch, Inputs: o.inputs, Outputs: outputs, Parameters: o.params, Decoupled: o.decoupled,
		Instances: []backend.InstanceConfig{{Name: "m_0_0", Kind: "KIND_CPU"}},
	}
}

// load loads a model and makes its instance.
func load(t testing.TB, source string, o testOptions) (*testModel, error) {
	t.Helper()
	d, log := newDriver(t, o.settings)
	d.grace, d.finalize = o.grace, o.finalize
	m := &testModel{t: t, driver: d, log: log, cfg: configOf(writeModel(t, source), o)}
	if o.complete {
		if _, err := d.Complete(t.Context(), m.cfg); err != nil {
			return nil, err
		}
	}
	var err error
	if m.model, err = d.Load(t.Context(), m.cfg); err != nil {
		return nil, err
	}
	if m.instance, err = m.model.NewInstance(t.Context(), m.cfg.Instances[0]); err != nil {
		return nil, errors.Join(err, m.model.Close())
	}
	t.Cleanup(m.close)
	return m, nil
}

func (m *testModel) close() {
	if m.instance == nil {
		return
	}
	if err := errors.Join(m.instance.Close(), m.model.Close()); err != nil {
		m.t.Error(err)
	}
	m.instance = nil
}

func mustLoad(t testing.TB, source string, o testOptions) *testModel {
	t.Helper()
	m, err := load(t, source, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// collector is a Responder that keeps the responses.
type collector struct {
	mu        sync.Mutex
	responses []*backend.Response
	final     bool
	done      chan struct{}
	cancelled bool
	block     chan struct{} // when set, Respond waits for it
}

func (c *collector) Respond(resp *backend.Response, final bool) error {
	if c.block != nil {
		<-c.block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.final {
		resp.Release()
		return errors.New("response after the final one")
	}
	if resp != nil {
		c.responses = append(c.responses, resp)
	}
	if final {
		c.final = true
		close(c.done)
	}
	return nil
}

func (c *collector) Cancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

func (c *collector) cancel() {
	c.mu.Lock()
	c.cancelled = true
	c.mu.Unlock()
}

func (c *collector) wait(t testing.TB) []*backend.Response {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(2 * time.Minute):
		t.Fatal("no final response")
	}
	return c.responses
}

func newRequest(inputs ...tensor.Tensor) (*backend.Request, *collector) {
	c := &collector{done: make(chan struct{})}
	return &backend.Request{
		ModelName: "m", ModelVersion: 1, Inputs: inputs, Requested: []string{"OUT"}, Ctx: context.Background(),
		Responder: c,
	}, c
}

// run executes one batch as the server would: requests without a final
// response get the error of Execute.
func (m *testModel) run(requests ...*backend.Request) error {
	err := m.instance.Execute(m.t.Context(), &backend.Batch{Requests: requests, Size: len(requests)})
	if err != nil {
		for _, r := range requests {
			_ = r.Respond(&backend.Response{Err: backend.AsError(err)}, true)
		}
	}
	return err
}

// infer sends one request and returns its only response.
func (m *testModel) infer(inputs ...tensor.Tensor) *backend.Response {
	m.t.Helper()
	r, c := newRequest(inputs...)
	for _, o := range m.cfg.Outputs {
		r.Requested = append(r.Requested, o.Name)
	}
	_ = m.run(r)
	all := c.wait(m.t)
	if len(all) != 1 {
		m.t.Fatalf("%d responses, want 1", len(all))
	}
	return all[0]
}

func floats(name string, values ...float32) tensor.Tensor {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return tensor.Tensor{Name: name, Datatype: tensor.FP32, Shape: tensor.Shape{int64(len(values))}, Data: data}
}

func describe(resp *backend.Response) string {
	if resp.Err != nil {
		return fmt.Sprintf("%s: %s", resp.Err.Code, resp.Err.Message)
	}
	var s strings.Builder
	for _, o := range resp.Outputs {
		fmt.Fprintf(&s, "%s %s %s %x;", o.Name, o.Datatype, o.Shape, o.Data)
	}
	return s.String()
}

const identity = `
class TritonPythonModel:
	def execute(self, requests):
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
`
