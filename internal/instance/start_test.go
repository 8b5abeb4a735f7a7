package instance

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
)

// TestStart: what is started ends when the backend says so, as what is executed does when it
// returns: answered, counted, or as it was before. Who starts it answers nothing: it may hold
// a lock that the answer needs.
func TestStart(t *testing.T) {
	for _, test := range []struct {
		name       string
		now        error // of Execute
		late       error // of Ended
		answers    bool
		begun      bool
		executions uint64
		failure    string
	}{
		{name: "answered", now: backend.ErrStarted, answers: true, begun: true, executions: 1},
		{name: "failed", now: backend.ErrStarted, late: errors.New("broken"), begun: true, failure: "broken"},
		{name: "not answered", now: backend.ErrStarted, begun: true, executions: 1, failure: "expected a single response, got 0"},
		{name: "given back", now: backend.ErrStarted, late: backend.ErrNotBegun},
		{name: "refused at once", now: errors.New("broken"), begun: true, failure: "broken"},
		{name: "given back at once", now: backend.ErrNotBegun},
		{name: "does not start", answers: true, begun: true, executions: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var end func(error)
			p := newPool(t, Options{Starts: true}, 1, func(b *backend.Batch) error {
				end = b.Ended
				if test.answers {
					for _, r := range b.Requests {
						_ = r.Respond(&backend.Response{}, true)
					}
				}
				return test.now
			})
			if !p.Starts() {
				t.Fatal("it does not start")
			}
			for range 2 { // reused memory starts anew
				before := executions(p)
				var needed failures
				r := request(&needed, 1)
				told := make(chan bool, 1)
				needed.mu.Lock()
				p.Start(0, []*infer.Request{r}, func(begun bool) { told <- begun })
				needed.mu.Unlock()
				if test.now == backend.ErrStarted { //nolint:errorlint // it is this one
					if p.at(0).life.Load().running.Load() != 1 {
						t.Error("nothing runs")
					}
					go end(test.late)
				}
				begun := <-told
				if begun != test.begun || len(told) != 0 {
					t.Errorf("begun %v, and it was told %d times more", begun, len(told))
				}
				if n := executions(p) - before; n != test.executions {
					t.Errorf("%d executions count", n)
				}
				failure := ""
				if err, _ := r.Failure(); err != nil {
					failure = err.Message
				}
				if r.Ended() != test.begun || failure != test.failure {
					t.Errorf("ended %v, failure %q", r.Ended(), failure)
				}
				if n := p.at(0).life.Load().running.Load(); n != 0 {
					t.Errorf("%d executions run", n)
				}
			}
		})
	}
}

// TestNothingStartsThatMayHang: an execution that may be given up has a goroutine that waits for it.
func TestNothingStartsThatMayHang(t *testing.T) {
	if p := newPool(t, Options{Starts: true, Settings: Settings{HangTimeout: time.Second}}, 1, nil); p.Starts() {
		t.Error("it starts")
	}
}

// failures is the sink of a program that holds its lock while it sends.
type failures struct{ mu sync.Mutex }

func (f *failures) Deliver(_ *infer.Request, resp *backend.Response, _ bool) {
	if resp != nil && resp.Err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
	}
	resp.Release()
}

func executions(p *Pool) (n uint64) {
	for _, b := range p.o.Stats.Snapshot().Batches {
		n += b.ComputeInfer.Count
	}
	return n
}
