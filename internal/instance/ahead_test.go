package instance

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// Nothing is sent ahead of a batch that has been recalled and is not back yet, whatever ends
// meanwhile: it would be run before that one.
func TestNothingGoesAheadOfWhatWasRecalled(t *testing.T) {
	given := make(chan *backend.Batch, 2)
	p := newPool(t, Options{Starts: true}, 1, func(b *backend.Batch) error {
		given <- b
		return backend.ErrStarted
	})
	s := p.at(0)
	s.ahead.Store(63)
	begun := make(chan bool)
	start := func() *backend.Batch {
		p.Start(0, []*infer.Request{request(&drop{}, 1)}, func(ok bool) { begun <- ok })
		return <-given
	}
	end := func(b *backend.Batch, err error) bool {
		if err == nil {
			_ = b.Requests[0].Respond(&backend.Response{}, true)
		}
		go b.Ended(err)
		return <-begun
	}
	for range 100 {
		end(start(), nil)
	}
	s.took.Store(shortest) // however long these took on a busy machine
	if !p.Ahead(0) {
		t.Fatal("nothing goes ahead to a quick instance")
	}
	runs, waits := start(), start()
	waits.Progress.Waits()
	waits.Progress.Recalled()
	if !end(runs, nil) {
		t.Error("the batch that ran is not known to have begun")
	}
	if p.Ahead(0) {
		t.Error("the batch before has ended, and something goes ahead of the one that was recalled")
	}
	if end(waits, backend.ErrNotBegun) {
		t.Error("the batch that was recalled is known to have begun")
	}
	if p.Ahead(0) {
		t.Error("something goes ahead to an instance that has just held something up")
	}
}

// An execution that ends while another one is held up does not say that the instance is quick.
func TestWhatIsHeldUpOutweighsWhatEndsMeanwhile(t *testing.T) {
	s := &slot{}
	var round, over atomic.Int32
	const rounds = 100_000
	go func() {
		for i := int32(1); i <= rounds; i++ {
			for round.Load() < i {
				runtime.Gosched()
			}
			s.executed(shortest)
			over.Store(i)
		}
	}()
	for i := int32(1); i <= rounds; i++ {
		s.took.Store(shortest)
		round.Store(i)
		for range i % 64 { // so that the two meet sooner or later
			over.Load()
		}
		s.took.Store(heldUp)
		for over.Load() < i {
			runtime.Gosched()
		}
		if took := s.took.Load(); took < heldUp-heldUp/tookPart {
			t.Fatalf("round %d: took %d", i, took)
		}
	}
}
