package onnxruntime

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// configOf returns the configuration of a model of testdata, in a model
// directory of its own: the first io is the input, or all up to an empty name.
func configOf(t testing.TB, name string, batch int, ios ...backend.IO) backend.Config {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := librarytest.Config(t, defaultFilename, content)
	cfg.MaxBatchSize = batch
	cfg.Inputs, cfg.Outputs = ios[:1], ios[1:]
	for i := range ios {
		if ios[i].Name == "" {
			cfg.Inputs, cfg.Outputs = ios[:i], ios[i+1:]
		}
	}
	return cfg
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

// open opens the backend for one test.
func open(t testing.TB, values map[string]string) (*driver, *nesotest.Log) {
	t.Helper()
	log := &nesotest.Log{}
	b := librarytest.Open(t, New(Options{Interpreter: librarytest.Named}), values, log)
	return b.(*driver), log
}

// start loads a model and makes its first instance.
func start(t testing.TB, d *driver, cfg backend.Config) *instance {
	t.Helper()
	return librarytest.Start(t, d, cfg).(*instance)
}

// ask runs one request and returns its outputs as text, "NAME [shape] values".
func ask(in *instance, batch int, outputs []string, inputs ...tensor.Tensor) (string, error) {
	sink := &librarytest.Answers{}
	r := &backend.Request{BatchSize: batch, Requested: outputs, Inputs: inputs, Responder: sink}
	if err := in.Execute(context.Background(), &backend.Batch{
		Requests: []*backend.Request{r}, Inputs: inputs,
		Size: max(1, batch),
	}); err != nil {
		return "", err
	}
	return show1(sink.Got[0])
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
