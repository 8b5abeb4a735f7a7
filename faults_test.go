package neso_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// TestABackendThatFailsNowAndThen: whichever batch and answer of a backend fails,
// each request has its own input or the injected error for an answer, and the
// server closes with nothing left.
func TestABackendThatFailsNowAndThen(t *testing.T) {
	var batches, answers, failed atomic.Int64
	faults := backendtest.Faults{
		Execute: func(context.Context, *backend.Batch) error {
			if batches.Add(1)%3 == 0 {
				return errors.New("injected into a batch")
			}
			return nil
		},
		Respond: func(*backend.Request) *backend.Error {
			if answers.Add(1)%5 == 0 {
				return backend.Errorf(backend.Internal, "injected into an answer")
			}
			return nil
		},
	}
	config := strings.Replace(identityConfig, "input", "max_batch_size: 8\ndynamic_batching { }\ninstance_group { count: 2 }\ninput", 1)
	s := &neso.Server{
		ModelRepositories: []string{repository(t, map[string]string{"m": config})},
		Backends:          []backend.Driver{faults.Driver(identity.New())},
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 50 {
				in := floats("X", float32(caller), float32(i))
				in.Shape = tensor.Shape{1, 2}
				resp, err := s.Infer(t.Context(), neso.Request{Model: "m", Inputs: []tensor.Tensor{in}})
				switch {
				case err != nil:
					failed.Add(1)
					if !strings.Contains(err.Error(), "injected into") {
						t.Errorf("caller %d, request %d: %v", caller, i, err)
					}
				case !bytes.Equal(resp.Outputs[0].Data, in.Data):
					t.Errorf("caller %d, request %d: the answer is another one's", caller, i)
				}
				resp.Release()
			}
		})
	}
	callers.Wait()
	if n := failed.Load(); n == 0 || n == 400 {
		t.Errorf("%d of 400 requests failed", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestARequestFailsAlone: what is wrong with one request does not become the error of those that would have been in a batch with it.
func TestARequestFailsAlone(t *testing.T) {
	dir := repository(t, map[string]string{"m": `backend: "python" max_batch_size: 2
		input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }
		dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 100000 }`})
	if err := os.WriteFile(filepath.Join(dir, "m", "1", "model.py"), []byte(trying), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &neso.Server{ModelRepositories: []string{dir}}
	start(t, s, python.New(python.Options{Python: nesotest.Python(t)}))
	long := strings.Repeat("i", 1<<16)
	for name, wrong := range map[string]neso.Request{
		"id":             {ID: long},
		"correlation id": {Correlation: backend.CorrelationID{Text: long}},
	} {
		var both sync.WaitGroup
		ask := func(q neso.Request, want string) {
			q.Model, q.Inputs = "m", []tensor.Tensor{{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{1, 1}, Data: make([]byte, 4)}}
			both.Go(func() {
				resp, err := s.Infer(context.WithoutCancel(t.Context()), q)
				if resp.Release(); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
					t.Errorf("a request beside one with a long %s: %v, want %q", name, err, want)
				}
			})
		}
		ask(neso.Request{}, "")
		ask(wrong, "at most 65535 bytes")
		both.Wait()
	}
}
