package grpcapi

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/backend"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/nesotest"
)

// gate is a backend whose models wait.
type gate struct {
	entered, open chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 16), open: make(chan struct{})} }

func (g *gate) echo() *nesotest.Echo {
	return &nesotest.Echo{OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		g.entered <- struct{}{}
		<-g.open
		return false, nil
	}}
}

func TestShutdownServesWhatIsInFlight(t *testing.T) {
	g := newGate()
	f := start(t, g.echo(), Options{})
	s := f.open(t.Context())
	if err := s.Send(request("many", "before", 1)); err != nil {
		t.Fatal(err)
	}
	wait(t, g.entered, "the stream's request")
	unary := make(chan error, 1)
	go func() {
		_, err := f.infer(request("wide", "", 1))
		unary <- err
	}()
	wait(t, g.entered, "the unary request")
	idle := f.open(t.Context())
	if err := idle.Send(request("nope", "", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Recv(); err != nil { // the stream is there
		t.Fatal(err)
	}

	stopped := make(chan error, 1)
	go func() { stopped <- f.server.Shutdown(t.Context()) }()
	if _, err := idle.Recv(); words(err) != "Unavailable: "+textShutdown {
		t.Errorf("idle stream: got %v", err)
	}
	if err := s.Send(request("int32", "after", 2)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"id=after error=" + textShutdown, "id=before model=many version=1 value=1 final=true"} {
		if i == 1 {
			close(g.open)
		}
		p, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := line(p); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if _, err := s.Recv(); words(err) != "Unavailable: "+textShutdown {
		t.Errorf("stream: got %v", err)
	}
	if err := wait(t, unary, "the unary answer"); err != nil {
		t.Errorf("unary: %v", err)
	}
	if err := wait(t, stopped, "Shutdown"); err != nil {
		t.Error(err)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	g := newGate()
	f := start(t, g.echo(), Options{})
	unary := make(chan error, 1)
	go func() {
		_, err := f.infer(request("int32", "", 1))
		unary <- err
	}()
	wait(t, g.entered, "the request")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := wait(t, unary, "the unary answer"); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	close(g.open) // the model comes to its senses
}

// Who is asked to take another connection keeps this one until its calls have ended:
// what bounds old connections is for those.
func TestPartingCutsNoCall(t *testing.T) {
	g := newGate()
	f := start(t, g.echo(), Options{MaxConnectionAgeGrace: time.Millisecond})
	unary := make(chan error, 1)
	go func() {
		_, err := f.infer(request("int32", "", 1))
		unary <- err
	}()
	wait(t, g.entered, "the request")
	f.server.Part()
	select {
	case err := <-unary:
		t.Errorf("cut off: %v", err)
		close(g.open)
	case <-time.After(100 * time.Millisecond): // a hundred times what it would take
		close(g.open)
		if err := wait(t, unary, "the unary answer"); err != nil {
			t.Error(err)
		}
	}
}

// Whoever calls Shutdown again waits for the same goroutines, and for all of them.
func TestShutdownAgainWaitsForWhatIsLeft(t *testing.T) {
	g := newGate()
	f := start(t, g.echo(), Options{})
	unary := make(chan error, 1)
	go func() {
		_, err := f.infer(request("int32", "", 1))
		unary <- err
	}()
	wait(t, g.entered, "the request")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const times = 200
	before := runtime.NumGoroutine()
	for range times {
		if err := f.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if more := runtime.NumGoroutine() - before; more >= times {
		t.Errorf("%d goroutines have been started by %d calls", more, times)
	}
	wait(t, unary, "the unary answer")
	close(g.open)
	if err := f.server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestUnaryAfterShutdownBegan(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	f.server.closing.Store(true)
	_, err := f.infer(request("int32", "", 1))
	if want := "Unavailable: " + textShutdown; words(err) != want {
		t.Errorf("got %s, want %s", words(err), want)
	}
	f.server.closing.Store(false)
}

func TestExitingEngine(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	if err := f.engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := invoke[pb.ServerLiveResponse](f, "ServerLive", &pb.ServerLiveRequest{})
	if want := "Unavailable: Server exiting"; words(err) != want {
		t.Errorf("live: got %s", words(err))
	}
	_, err = invoke[pb.ServerReadyResponse](f, "ServerReady", &pb.ServerReadyRequest{})
	if want := "Unavailable: Server exiting"; words(err) != want {
		t.Errorf("ready: got %s", words(err))
	}
}
