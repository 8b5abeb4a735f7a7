package neso_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// waiting is a function that says which inputs it has and what its context is,
// and then waits to be let go on. It looks at the inputs again after that.
type waiting struct {
	begun chan context.Context
	goOn  chan error
	read  chan []byte
}

func newWaiting() *waiting {
	return &waiting{begun: make(chan context.Context, 1), goOn: make(chan error, 1), read: make(chan []byte, 1)}
}

func (w *waiting) run(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
	w.begun <- ctx
	err := <-w.goOn
	w.read <- bytes.Clone(in[0].Data)
	return []tensor.Tensor{{Name: "y", Datatype: in[0].Datatype, Shape: in[0].Shape, Data: bytes.Clone(in[0].Data)}}, err
}

func waitingServer(t *testing.T, w *waiting, batch int, config string) *neso.Server {
	t.Helper()
	m := neso.Model{
		Name: "w", Inputs: []backend.IO{{Name: "x", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}},
		Outputs: []backend.IO{{Name: "y", Datatype: tensor.FP32, Dims: tensor.Shape{-1}}}, MaxBatchSize: batch, Config: []byte(config),
	}
	s := &neso.Server{NoRepository: true, HTTP: neso.HTTP{Address: "127.0.0.1:0"}}
	if err := s.Bind(m, w.run); err != nil {
		t.Fatal(err)
	}
	start(t, s)
	return s
}

type mark struct{}

func TestInferReturnsWhenItsContextEnds(t *testing.T) {
	for _, batch := range []int{0, 4} {
		w := newWaiting()
		s := waitingServer(t, w, batch, "")
		in := floats("x", 1, 2)
		if batch > 0 {
			in.Shape = tensor.Shape{1, 2}
		}
		want := bytes.Clone(in.Data)
		why := errors.New("the user has left")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), mark{}, 7))
		ended := make(chan error, 1)
		go func() {
			_, err := s.Infer(ctx, neso.Request{Model: "w", Inputs: []tensor.Tensor{in}})
			ended <- err
		}()
		inside := <-w.begun
		if inside.Value(mark{}) != 7 || inside.Err() != nil {
			t.Errorf("the function's context has value %v and error %v", inside.Value(mark{}), inside.Err())
		}
		cancel(why)
		err := <-ended // while the function runs
		var e *backend.Error
		if !errors.As(err, &e) || e.Code != backend.Cancelled || e.Message != why.Error() {
			t.Errorf("got %v, want Cancelled: %v", err, why)
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("%v is neither context.Canceled nor its cause", err)
		}
		<-inside.Done()
		if context.Cause(inside) != why || !errors.Is(inside.Err(), context.Canceled) { //nolint:errorlint // the very one
			t.Errorf("the function's context ended with %v", context.Cause(inside))
		}
		clear(in.Data) // it is the caller's again
		w.goOn <- nil
		if got := <-w.read; !bytes.Equal(got, want) {
			t.Errorf("the function read %v, want %v", got, want)
		}
	}
}

func TestInferKeepsItsDeadline(t *testing.T) {
	w := newWaiting()
	s := waitingServer(t, w, 0, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Infer(ctx, neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}})
		ended <- err
	}()
	inside := <-w.begun
	at, ok := inside.Deadline()
	if want, _ := ctx.Deadline(); !ok || !at.Equal(want) {
		t.Errorf("deadline %v, %v; want %v", at, ok, want)
	}
	cancel()
	<-inside.Done()
	w.goOn <- inside.Err()
	if err := <-ended; err == nil || err.Error() != context.Canceled.Error() || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-w.read
	// One that has passed, also for a request that has not been begun.
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer stop()
	if _, err := s.Infer(late, neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	// What had ended before is not begun, and the next one is served.
	if _, err := s.Infer(ctx, neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}}); err == nil {
		t.Error("a context that has ended is no error")
	}
	w.goOn <- nil
	resp, err := s.Infer(t.Context(), neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 5)}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
	inside = <-w.begun
	if <-inside.Done(); inside.Err() == nil {
		t.Error("the context of a call goes on after it")
	}
}

func TestAFunctionsContextEndsWithTheConnection(t *testing.T) {
	w := newWaiting()
	s := waitingServer(t, w, 0, "")
	conn, err := net.Dial("tcp", s.Addresses()["http"])
	if err != nil {
		t.Fatal(err)
	}
	body := `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}`
	if _, err := conn.Write([]byte("POST /v2/models/w/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 66\r\n\r\n" + body)); err != nil ||
		len(body) != 66 {
		t.Fatal(err, len(body))
	}
	inside := <-w.begun
	conn.Close()
	<-inside.Done()
	w.goOn <- inside.Err()
	<-w.read
}

func TestTheContextOfABatchEndsWithItsLastRequest(t *testing.T) {
	w := newWaiting()
	s := waitingServer(t, w, 2, `{"dynamic_batching": {"preferred_batch_size": [2], "max_queue_delay_microseconds": 60000000}}`)
	var cancels []context.CancelFunc
	var calls sync.WaitGroup
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		cancels = append(cancels, cancel)
		calls.Go(func() {
			in := floats("x", 1)
			in.Shape = tensor.Shape{1, 1}
			if _, err := s.Infer(ctx, neso.Request{Model: "w", Inputs: []tensor.Tensor{in}}); err == nil {
				t.Error("a request that was cancelled is answered")
			}
		})
	}
	inside := <-w.begun
	done := inside.Done()
	cancels[0]()
	if inside.Err() != nil {
		t.Error("the batch ended with the first request")
	}
	cancels[1]()
	<-done
	calls.Wait()
	w.goOn <- nil
	<-w.read
}

func TestStreamReturnsWhenItsContextEnds(t *testing.T) {
	w := newWaiting()
	s := waitingServer(t, w, 0, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var got []string
	go func() {
		ended <- s.Stream(ctx, neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}}, func(r *backend.Response) bool {
			got = append(got, r.Err.Error())
			return true
		})
	}()
	<-w.begun
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
	w.goOn <- errors.New("late")
	<-w.read
	if !slices.Equal(got, nil) {
		t.Errorf("responses after the end: %v", got)
	}
}

// A place of the model that a panic of the caller's took would be missing here.
func TestAPanicOfYieldIsThatOfStream(t *testing.T) {
	w := &waiting{begun: make(chan context.Context, 3), goOn: make(chan error, 1), read: make(chan []byte, 3)}
	s := waitingServer(t, w, 0, "")
	for range 2 {
		w.goOn <- nil
		func() {
			defer func() {
				if got := recover(); got != "of the caller" {
					t.Errorf("recovered %v", got)
				}
			}()
			err := s.Stream(t.Context(), neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}}, func(r *backend.Response) bool {
				r.Release()
				panic("of the caller")
			})
			t.Errorf("returned %v", err)
		}()
	}
	w.goOn <- nil
	resp, err := s.Infer(t.Context(), neso.Request{Model: "w", Inputs: []tensor.Tensor{floats("x", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
}
