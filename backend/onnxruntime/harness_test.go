package onnxruntime

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interpreter is that of the virtual environment that `make setup` makes.
func interpreter() (string, error) {
	if path, err := filepath.Abs("../../.venv/bin/python"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return python.DefaultInterpreter("")
}

// configOf returns the configuration of a model of testdata, in a model
// directory of its own: the first io is the input, or all up to an empty name.
func configOf(t testing.TB, name string, batch int, ios ...backend.IO) backend.Config {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := configFor(t, content)
	cfg.MaxBatchSize = batch
	cfg.Inputs, cfg.Outputs = ios[:1], ios[1:]
	for i := range ios {
		if ios[i].Name == "" {
			cfg.Inputs, cfg.Outputs = ios[:i], ios[i+1:]
		}
	}
	return cfg
}

// configFor puts content into the version directory of a model.
func configFor(t testing.TB, content []byte) backend.Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	version := filepath.Join(dir, "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, defaultFilename), content, 0o644); err != nil {
		t.Fatal(err)
	}
	return backend.Config{
		Name: "model", Version: 1, Directory: dir, VersionDirectory: version, Filename: defaultFilename, Parameters: map[string]string{},
		Instances: []backend.InstanceConfig{{Name: "model_0_0", Kind: "KIND_CPU"}},
	}
}

func port(name string, d tensor.Datatype, dims ...int64) backend.IO {
	return backend.IO{Name: name, Datatype: d, Dims: dims}
}

func optional(in backend.IO) backend.IO {
	in.Optional = true
	return in
}

func int64s(name string, shape tensor.Shape, values ...int64) tensor.Tensor {
	return numbers(name, tensor.Int64, shape, values)
}

func floats(name string, shape tensor.Shape, values ...float32) tensor.Tensor {
	return numbers(name, tensor.FP32, shape, values)
}

func numbers(name string, d tensor.Datatype, shape tensor.Shape, values any) tensor.Tensor {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		panic(err)
	}
	return tensor.Tensor{Name: name, Datatype: d, Shape: shape, Data: b.Bytes()}
}

// host is a server without other models.
type host struct {
	backend.Host
	memory *memory.Pool
	log    *slog.Logger
}

func (h *host) Allocator() tensor.Allocator { return h.memory }
func (h *host) Logger() *slog.Logger        { return h.log }

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// open opens the backend for one test.
func open(t testing.TB, values map[string]string) (*driver, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	h := &host{memory: memory.New(memory.Options{}), log: slog.New(slog.NewTextHandler(log, nil))}
	b, err := New(Options{Interpreter: interpreter}).Open(t.Context(), h, backend.Settings{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if leaks := h.memory.Leaks(); len(leaks) > 0 {
			t.Errorf("%d buffers leaked, the first:\n%s", len(leaks), leaks[0])
		}
		h.memory.Close()
	})
	return b.(*driver), log
}

// start loads a model and makes its first instance.
func start(t testing.TB, d *driver, cfg backend.Config) *instance {
	t.Helper()
	m, err := d.Load(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.NewInstance(t.Context(), cfg.Instances[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), m.Close() })
	return in.(*instance)
}

// answers collects what a request is answered with.
type answers struct {
	got       []*backend.Response
	cancelled bool
}

func (a *answers) Respond(r *backend.Response, _ bool) error { a.got = append(a.got, r); return nil }
func (a *answers) Cancelled() bool                           { return a.cancelled }

// ask runs one request and returns its outputs as text, "NAME [shape] values".
func ask(in *instance, batch int, outputs []string, inputs ...tensor.Tensor) (string, error) {
	sink := &answers{}
	r := &backend.Request{BatchSize: batch, Requested: outputs, Inputs: inputs, Responder: sink}
	if err := in.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: inputs, Size: max(1, batch)}); err != nil {
		return "", err
	}
	return show1(sink.got[0])
}

func show1(r *backend.Response) (string, error) {
	defer r.Release()
	if r.Err != nil {
		return "", r.Err
	}
	var all []string
	for _, o := range r.Outputs {
		all = append(all, fmt.Sprint(o.Name, " ", o.Shape, " ", values(o)))
	}
	return strings.Join(all, "; "), nil
}

func values(t tensor.Tensor) any {
	n, _ := t.Shape.Elements()
	var into any
	switch t.Datatype {
	case tensor.FP32:
		into = make([]float32, n)
	case tensor.Int64:
		into = make([]int64, n)
	case tensor.Int32:
		into = make([]int32, n)
	default:
		return fmt.Sprintf("%q", t.Data)
	}
	if err := binary.Read(bytes.NewReader(t.Data), binary.LittleEndian, into); err != nil {
		return err
	}
	return into
}
