package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/inferencepb"
)

var (
	refused = &Error{Status: http.StatusServiceUnavailable, Code: codes.Unavailable}
	later   = &Error{Status: http.StatusServiceUnavailable, Code: codes.Unavailable, RetryAfter: 3 * time.Second}
	quota   = &Error{Status: http.StatusTooManyRequests, Code: codes.ResourceExhausted, RetryAfter: time.Second}
	much    = &Error{Status: http.StatusServiceUnavailable, Code: codes.Unavailable, RetryAfter: time.Hour}
	wrong   = &Error{Status: http.StatusBadRequest, Code: codes.InvalidArgument}
	dial    = &net.OpError{Op: "dial", Err: errors.New("refused")}
	reset   = &net.OpError{Op: "read", Err: errors.New("reset")}
)

// TestAttempts: who is asked again, how often, after how long.
func TestAttempts(t *testing.T) {
	retry := &Retry{Attempts: 4, Wait: 100 * time.Millisecond, MaxWait: 5 * time.Second}
	for _, c := range []struct {
		name     string
		k        kind
		err      error
		attempts int
		least    time.Duration
		most     time.Duration
	}{
		{"no connection", unsentOnly, dial, 4, 350 * time.Millisecond, 700 * time.Millisecond},
		{"no connection over gRPC", unsentOnly, &connectionError{err: wrong, unsent: true}, 4, 350 * time.Millisecond, 700 * time.Millisecond},
		{"a connection that broke", stateless, reset, 1, 0, 0},
		{"one over gRPC", stateless, &connectionError{err: wrong}, 1, 0, 0},
		{"unavailable", stateless, refused, 4, 350 * time.Millisecond, 700 * time.Millisecond},
		{"unavailable in a sequence", unsentOnly, refused, 1, 0, 0},
		{"unavailable for control", control, refused, 1, 0, 0},
		{"unavailable until then, for control", control, later, 4, 9 * time.Second, 9 * time.Second},
		{"unavailable until then", stateless, later, 4, 9 * time.Second, 9 * time.Second},
		{"over a quota", stateless, quota, 4, 3 * time.Second, 3 * time.Second},
		{"unavailable for long", stateless, much, 1, 0, 0},
		{"wrong", stateless, wrong, 1, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, n := time.Now(), 0
			err := retry.attempt(t.Context(), c.k, func() error { n++; return fmt.Errorf("a: %w", c.err) })
			took := time.Since(began)
			if !errors.Is(err, c.err) || n != c.attempts || took < c.least || took > c.most {
				t.Errorf("%s: %v, %d attempts in %v, want %d in %v to %v", c.name, err, n, took, c.attempts, c.least, c.most)
			}
		})
	}
}

func TestAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := &Retry{Attempts: 100, Wait: time.Second, MaxWait: 4 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if err := retry.attempt(ctx, stateless, func() error { return refused }); !errors.Is(err, context.Canceled) || !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		began := time.Now()
		if err := retry.attempt(ctx, stateless, func() error { return refused }); !errors.Is(err, refused) || ctx.Err() != nil ||
			time.Since(began) != 0 {
			t.Errorf("a pause beyond the deadline: %v after %v", err, time.Since(began))
		}
		for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 50: 4 * time.Second} {
			for range 100 {
				if got := retry.pause(n); got < want/2 || got > want {
					t.Errorf("pause %d: got %v, want up to %v", n, got, want)
				}
			}
		}
		n := 0
		if err := (&Retry{}).attempt(t.Context(), stateless, func() error { n++; return refused }); err == nil || n != 1 {
			t.Errorf("by default: %d attempts, %v", n, err)
		}
	})
}

// TestRetryHTTP: a request is whole each time that it is sent.
func TestRetryHTTP(t *testing.T) {
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1000)
		k, _ := r.Body.Read(body)
		if n.Add(1) < 3 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, `{"error":"full"}`, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"model_name":"of %d bytes"}`, k)
	}))
	defer srv.Close()
	c := New(srv.URL)
	defer c.Close()
	c.Retry = Retry{Attempts: 3, Wait: time.Millisecond}
	r, err := c.Infer(t.Context(), &Request{Model: "m", ID: "12345"})
	if err != nil || n.Load() != 3 || !strings.HasPrefix(r.Model, "of ") || r.Model == "of 0 bytes" {
		t.Errorf("%v, %d attempts: %+v", err, n.Load(), r)
	}
	n.Store(0)
	if _, err := c.Infer(t.Context(), &Request{Model: "m", Sequence: &Sequence{ID: 1}}); err == nil || n.Load() != 1 {
		t.Errorf("in a sequence: %v, %d attempts", err, n.Load())
	}
	in := map[string]any{"sequence_id": 1}
	for name, call := range map[string]func() error{
		"generate": func() error {
			_, err := c.Generate(t.Context(), "m", "", in)
			return err
		},
		"generate_stream": func() error {
			return c.GenerateStream(t.Context(), "m", "", in, func(json.RawMessage) error { return nil })
		},
	} {
		n.Store(0)
		if err := call(); err == nil || n.Load() != 1 {
			t.Errorf("%s in a sequence: %v, %d attempts", name, err, n.Load())
		}
	}
}

// TestRetryGRPC: what the server says is told from what becomes of connections.
func TestRetryGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if n.Add(1) < 3 {
			stream.SetTrailer(metadata.Pairs(pushback, "2"))
			return status.Error(codes.Unavailable, "full")
		}
		return stream.SendMsg(&inferencepb.ModelInferResponse{ModelName: "m"})
	}))
	go func() { _ = srv.Serve(listener) }()
	defer srv.Stop()
	c := New("grpc://" + listener.Addr().String())
	defer c.Close()
	_, err = c.Infer(t.Context(), &Request{Model: "m"})
	var answer *Error
	if !errors.As(err, &answer) || answer.Code != codes.Unavailable || answer.Status != 503 || answer.RetryAfter != 2*time.Millisecond {
		t.Errorf("got %#v", err)
	}
	n.Store(0)
	again := New("grpc://" + listener.Addr().String())
	defer again.Close()
	again.Retry = Retry{Attempts: 3, Wait: time.Millisecond}
	if r, err := again.Infer(t.Context(), &Request{Model: "m"}); err != nil || r.Model != "m" || n.Load() != 3 {
		t.Errorf("%v, %d attempts", err, n.Load())
	}
	nobody := New("grpc://127.0.0.1:1")
	defer nobody.Close()
	if _, err := nobody.Infer(t.Context(), &Request{Model: "m"}); !unsent(err) {
		t.Errorf("no server: got %v", err)
	}
}
