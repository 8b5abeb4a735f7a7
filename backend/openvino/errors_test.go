package openvino

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

// TestErrorsAreThoseOfTheirModels: the library's last message is one for all
// threads.
func TestErrorsAreThoseOfTheirModels(t *testing.T) {
	d := librarytest.Open(t, New(Options{Interpreter: librarytest.Named}), nil, io.Discard)
	var loads sync.WaitGroup
	for i := range 8 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("model", i), "1")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "model.onnx"), []byte("\x08\x07 not a model"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := backend.Config{
			Name: fmt.Sprint("model", i), Version: 1, Directory: filepath.Dir(dir), VersionDirectory: dir,
			Filename: "model.onnx",
		}
		loads.Go(func() {
			for range 15 {
				_, err := d.Load(t.Context(), cfg)
				if err == nil || !strings.Contains(err.Error(), "'model.onnx'") || strings.Contains(err.Error(), string(filepath.Separator)+"model") {
					t.Errorf("%s: %v", cfg.Name, err)
					return
				}
			}
		})
	}
	loads.Wait()
}

// TestFailuresBesideGoodRequests: who fails does not keep others from running,
// not even while nobody can ask for a message, and is answered in any case.
func TestFailuresBesideGoodRequests(t *testing.T) {
	b := librarytest.Open(t, New(Options{Interpreter: librarytest.Named}), nil, io.Discard)
	cfg := configFor(t, ir{element: "f32", shape: "?,?", layer: "MatMul", layers: 1}.String(), tensor.FP32, 0, -1, -1)
	run := func(in backend.Instance, rows, columns int64) error {
		data := make([]byte, 4*rows*columns)
		answers := &librarytest.Answers{}
		r := &backend.Request{
			Inputs:    []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{rows, columns}, Data: data}},
			Responder: answers,
		}
		err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: r.Inputs})
		for _, got := range answers.Got {
			if got.Err != nil {
				err = got.Err
			}
			for i := range got.Outputs {
				got.Outputs[i].Release()
			}
		}
		return err
	}
	bad := librarytest.Start(t, b, cfg)
	alone := run(bad, 2, 3)
	if alone == nil || !strings.Contains(alone.Error(), "incompatible shape") {
		t.Fatalf("a product that is none: %v", alone)
	}
	a, err := b.(*driver).library(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	good := librarytest.Start(t, b, cfg)
	a.failing <- struct{}{} // somebody asks for a message and does not get it
	a.turn = time.Millisecond
	if err := run(good, 2, 2); err != nil {
		t.Errorf("a good request: %v", err)
	}
	if err := run(bad, 2, 3); err == nil || !strings.Contains(err.Error(), "OpenVINO fails with status -") ||
		!strings.Contains(err.Error(), "is not known") {
		t.Errorf("without its message: %v", err)
	}
	<-a.failing
	a.turn = failWait

	var all sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		in := librarytest.Start(t, b, cfg)
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := run(in, 2, 3); err == nil || err.Error() != alone.Error() {
					t.Errorf("beside good requests: %v", err)
					return
				}
			}
		})
	}
	for range 500 {
		if err := run(good, 3, 3); err != nil {
			t.Errorf("beside requests that fail: %v", err)
			break
		}
	}
	close(done)
	all.Wait()
}
