package neso_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// lender is a program whose memory a model uses.
type lender struct {
	allocate func() // runs while memory is asked for

	mu        sync.Mutex
	asks      int // calls of the methods of a Sender that have not returned
	final     bool
	overlap   bool // the final response has come while one ran, or one after it
	freed     atomic.Int32
	responded chan struct{}
	released  chan struct{}
}

func newLender() *lender {
	return &lender{responded: make(chan struct{}), released: make(chan struct{}), allocate: func() {}}
}

func (l *lender) Pinned(string, int64) {}
func (l *lender) Keep(*tensor.Buffer)  {}
func (l *lender) Released()            { close(l.released) }

func (l *lender) Respond(resp *backend.Response, final bool) {
	resp.Release()
	l.mu.Lock()
	l.overlap = l.overlap || l.asks > 0
	l.final = l.final || final
	l.mu.Unlock()
	if final {
		close(l.responded)
	}
}

// ask notes a call; it returns what notes its end.
func (l *lender) ask() (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks++
	l.overlap = l.overlap || l.final
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asks--
	}
}

func (l *lender) InPieces() *tensor.Buffer { return nil }

func (l *lender) Pieces(string) [][]byte { return nil }

func (l *lender) PreferOutput(_ string, _ *uint64, would backend.Memory) (backend.Memory, error) {
	defer l.ask()()
	return would, nil
}

func (l *lender) BeginResponse() { l.ask()() }

func (l *lender) AllocateOutput(_ string, size int, m backend.Memory) (*tensor.Buffer, backend.Memory, error) {
	defer l.ask()()
	l.allocate()
	return tensor.NewBuffer(make([]byte, size), l), m, nil
}

func (l *lender) ReleaseBuffer(*tensor.Buffer) { l.freed.Add(1) }

// lends starts a server with a model that does what execute says.
func lends(t *testing.T, execute func(r *backend.Request)) *neso.Server {
	t.Helper()
	e := &nesotest.Echo{Name: "echo", OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		for _, r := range b.Requests {
			execute(r)
		}
		return true, nil
	}}
	s := &neso.Server{ModelRepositories: []string{repository(t, map[string]string{"m": `backend: "echo"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }`})}}
	start(t, s, e.Driver())
	return s
}

func lend(t *testing.T, s *neso.Server, l *lender) {
	t.Helper()
	if err := s.Submit(context.Background(), neso.Request{Model: "m", Inputs: []tensor.Tensor{floats("X", 1)}}, l, nil); err != nil {
		t.Fatal(err)
	}
}

// TestFinalAfterAllocation: the final response of a request comes when no call of its Sender runs, and none begins after it.
func TestFinalAfterAllocation(t *testing.T) {
	l := newLender()
	inside, goOn := make(chan struct{}), make(chan struct{})
	l.allocate = sync.OnceFunc(func() {
		close(inside)
		<-goOn
	})
	answered, late, over := make(chan struct{}), make(chan error), make(chan struct{})
	s := lends(t, func(r *backend.Request) {
		by := r.Sender
		go func() { // a thread of the model's own
			_, _, err := by.AllocateOutput("Y", 4, backend.Memory{})
			late <- err
			<-over
			by.BeginResponse()
			_, err = by.PreferOutput("Y", nil, backend.Memory{})
			late <- err
			_, _, err = by.AllocateOutput("Y", 4, backend.Memory{})
			late <- err
		}()
		<-inside
		if err := r.Responder.Respond(&backend.Response{Err: backend.Errorf(backend.Internal, "no")}, true); err != nil {
			t.Error(err)
		}
		close(answered)
	})
	lend(t, s, l)
	<-answered
	select {
	case <-l.responded:
		t.Error("the final response has come while memory is asked for")
	default:
	}
	close(goOn)
	if err := <-late; err == nil {
		t.Error("memory is given after the final response")
	}
	<-l.responded
	<-l.released
	if n := l.freed.Load(); n != 1 {
		t.Errorf("%d pieces of memory have been given back, want 1", n)
	}
	close(over)
	for range 2 {
		if e := (*backend.Error)(nil); !errors.As(<-late, &e) || e.Code != backend.Internal {
			t.Errorf("after the final response: %v", e)
		}
	}
	if l.overlap {
		t.Error("a call of the sender ran beside the final response, or after it")
	}
}

// TestFinalBesideAllocations: whichever of the two is first.
func TestFinalBesideAllocations(t *testing.T) {
	var threads sync.WaitGroup
	s := lends(t, func(r *backend.Request) {
		by := r.Sender
		for range 3 {
			threads.Go(func() {
				for {
					by.BeginResponse()
					b, _, err := by.AllocateOutput("Y", 4, backend.Memory{})
					if err != nil {
						return
					}
					b.Release()
				}
			})
		}
		_ = r.Responder.Respond(nil, true)
	})
	for range 300 {
		l := newLender()
		lend(t, s, l)
		<-l.responded
		<-l.released
		threads.Wait()
		if l.overlap {
			t.Fatal("a call of the sender ran beside the final response, or after it")
		}
	}
}
