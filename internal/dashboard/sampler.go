package dashboard

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/engine"
)

const (
	// interval is the time between two looks.
	interval = time.Second
	// memoryEach is in how many looks the memory of all models is read once: it takes
	// reads of files.
	memoryEach = 10
	// mostViewers bounds who looks at the same time.
	mostViewers = 32
	// ahead is how many frames a viewer may be behind; it is cut off then.
	ahead = 4
)

// piece is one version in a frame, encoded once for all viewers.
type piece struct {
	model string
	json  []byte
}

// frame is what has changed since the one before; the first of a viewer has all.
type frame struct {
	at     time.Time
	whole  bool
	server []byte
	pieces []piece
	gone   []gone
}

type gone struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version"`
}

// viewer takes frames.
type viewer struct{ frames chan *frame }

// key names a version.
type key struct {
	name    string // with the namespace
	version int64
}

// sampler looks at the server once a second for all viewers together, while there
// are any.
type sampler struct {
	standings func() []engine.Standing
	server    func(now time.Time) []byte
	watch     func() (stop func()) // may be nil

	mu      sync.Mutex
	viewers map[*viewer]bool
	closed  bool
	stop    chan struct{}   // ends the loop that runs
	running *sync.WaitGroup // of it

	// Of the loop.
	look     uint64
	versions map[key]*followed
}

// join adds a viewer; nil where there are too many, or the server ends. Its first
// frame is whole.
func (s *sampler) join() *viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.viewers) >= mostViewers {
		return nil
	}
	v := &viewer{make(chan *frame, ahead)}
	if s.viewers == nil {
		s.viewers = map[*viewer]bool{}
	}
	s.viewers[v] = false
	if len(s.viewers) == 1 {
		before := s.running
		s.stop, s.running = make(chan struct{}), &sync.WaitGroup{}
		stop := s.stop
		s.running.Go(func() {
			if before != nil {
				before.Wait() // what the loop has is one's at a time
			}
			s.run(stop)
		})
	}
	return v
}

// leave ends what join has begun. It may be called again.
func (s *sampler) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(v)
}

func (s *sampler) leaveLocked(v *viewer) {
	if _, ok := s.viewers[v]; !ok {
		return
	}
	delete(s.viewers, v)
	close(v.frames)
	if len(s.viewers) == 0 {
		close(s.stop)
	}
}

// close ends all viewers, and waits for the loop.
func (s *sampler) close() {
	s.mu.Lock()
	s.closed = true
	for v := range s.viewers {
		s.leaveLocked(v)
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		running.Wait()
	}
}

func (s *sampler) run(stop chan struct{}) {
	if s.watch != nil {
		defer s.watch()()
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	s.versions = map[key]*followed{}
	for {
		s.give(s.take(time.Now()))
		select {
		case <-stop:
			s.versions = nil
			return
		case <-t.C:
		}
	}
}

// give hands a frame to the viewers; those that have had none get a whole one.
func (s *sampler) give(f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var whole *frame
	for v, begun := range s.viewers {
		to := f
		if !begun {
			if whole == nil {
				whole = s.whole(f)
			}
			to, s.viewers[v] = whole, true
		}
		select {
		case v.frames <- to:
		default:
			s.leaveLocked(v) // it comes back, and begins anew
		}
	}
}

// whole is f with all versions.
func (s *sampler) whole(f *frame) *frame {
	w := &frame{at: f.at, server: f.server, whole: true, pieces: make([]piece, 0, len(s.versions))}
	for _, v := range s.versions {
		w.pieces = append(w.pieces, piece{v.row.Name, v.json})
	}
	return w
}

// take looks at the server.
func (s *sampler) take(now time.Time) *frame {
	s.look++
	f := &frame{at: now, server: s.server(now)}
	standings := s.standings()
	for i := range standings {
		v := &standings[i]
		k := key{v.Key, v.Version.Version}
		old := s.versions[k]
		if old == nil {
			old = &followed{}
			s.versions[k] = old
		}
		old.seen = s.look
		if old.update(v, now, (s.look+uint64(i))%memoryEach == 0) {
			f.pieces = append(f.pieces, piece{v.Name, old.json})
		}
	}
	for k, v := range s.versions {
		if v.seen != s.look {
			f.gone = append(f.gone, gone{v.row.Name, v.row.Namespace, v.row.Version})
			delete(s.versions, k)
		}
	}
	return f
}

// update looks at the version again and reports whether its JSON is another.
func (f *followed) update(v *engine.Standing, now time.Time, memory bool) bool {
	r := standingRow(v)
	r.Memory = f.row.Memory
	var moved *rates
	if v.Model == nil {
		f.numbers, r.Memory = nil, 0
	} else {
		if memory || f.numbers == nil {
			r.Memory = v.Model.HostMemory()
		}
		numbers := v.Model.Stats()
		activity := numbers.Activity()
		r.Total, r.Failed, r.Restarts, r.Pending = f.row.Total, f.row.Failed, f.row.Restarts, activity.Pending
		same := numbers == f.numbers
		if !same || activity != f.activity {
			totals := numbers.Totals()
			if same {
				moved = ratesOf(&f.totals, &totals, now.Sub(f.at).Seconds())
				if moved != nil && !v.Model.Config().Decoupled {
					moved.First = nil // the only one
				}
			}
			f.numbers, f.activity, f.totals = numbers, activity, totals
			r.Total, r.Failed, r.Restarts = totals.Success.Count+totals.Fail.Count, totals.Fail.Count, totals.Restarts
		}
		if edges := v.Model.Edges(); edges != nil {
			if gone := edgesOf(f.edges, edges, now.Sub(f.at).Seconds()); same && gone != nil {
				moved = cmp.Or(moved, &rates{})
				moved.Edges = gone
			}
			f.edges = edges
		}
		f.at = now
	}
	if moved == nil && !f.busy && r == f.row && f.json != nil {
		return false
	}
	f.row, f.busy = r, moved != nil
	r.rates = moved
	text, err := json.Marshal(&r)
	if err != nil {
		return false // no number can be one that JSON lacks
	}
	f.json = text
	return true
}
