package neso

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
)

// followed is the timeline of a request with a follower. The request is its answerer's
// when it is called.
type followed struct {
	to       Follower
	among    *followers
	mark     string
	sent     bool    // it is the request that Submit has sent, whose end comes with its last response
	moments  Moments // of that one
	ended    sync.Once
	composed atomic.Bool // an ensemble, which computes in its steps only
	notes    sync.WaitGroup
}

func (f *followed) Begin(r *infer.Request) {
	told := f.to.Begin(r.ModelName, r.ModelVersion, r.ID, r.Times.Start)
	f.mark = engine.FollowerMark + strconv.FormatUint(f.to.Number(), 10)
	if told != "" {
		f.mark += " " + told
	}
	r.Trace = f.mark
	f.among.add(f)
}

func (f *followed) Queue(r *infer.Request) { f.to.Queue(backend.Now(), r.Inputs) }

func (f *followed) Answer(r *infer.Request, resp *backend.Response) {
	if r.Times.Steps != nil {
		f.composed.Store(true)
	}
	if resp != nil && resp.Err == nil && !f.sent {
		f.to.Outputs(resp.Outputs)
	}
}

func (f *followed) End(r *infer.Request, refused error) {
	f.ended.Do(func() {
		f.among.remove(f)
		f.notes.Wait()
		t := &r.Times
		f.moments = Moments{
			Queue: t.Queue, ComputeStart: t.ComputeStart, InputEnd: t.InputEnd, OutputStart: t.OutputStart, ComputeEnd: t.ComputeEnd, End: t.End,
		}
		if f.composed.Load() {
			f.moments.ComputeStart = 0
		}
		if f.moments.End == 0 {
			f.moments.End = backend.Now()
		}
		if !f.sent || refused != nil {
			f.to.End(f.moments)
		}
	})
}

func (f *followed) Child() infer.Timeline {
	child := f.to.Child()
	if child == nil {
		return nil
	}
	return &followed{to: child, among: f.among}
}

// followers are the requests with a follower that have not ended, by what their models
// were given: the server's mark, which is engine.FollowerMark and the follower's number, and
// behind a space what the program's trace is known by. The zero value has none.
type followers struct {
	mu   sync.Mutex
	live map[string]*followed
}

func (a *followers) add(f *followed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == nil {
		a.live = map[string]*followed{}
	}
	a.live[f.mark] = f
}

func (a *followers) remove(f *followed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live[f.mark] == f {
		delete(a.live, f.mark)
	}
}

// find returns the request of a mark, nil for none. The program's trace is there until
// the caller has called notes.Done.
func (a *followers) find(mark string) *followed {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.live[mark]
	if f != nil {
		f.notes.Add(1)
	}
	return f
}

// Called implements engine.Followers.
func (a *followers) Called(mark string) infer.Timeline {
	f := a.find(mark)
	if f == nil {
		return nil
	}
	defer f.notes.Done()
	return f.Child()
}

// Note implements engine.Followers.
func (a *followers) Note(mark, activity string, at int64) {
	if f := a.find(mark); f != nil {
		defer f.notes.Done()
		f.to.Note(at, activity)
	}
}
