package load

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/schedule"
	"github.com/nesoserve/neso/internal/perf/wire"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// server answers each request after a time that depends on its number alone.
type server struct {
	takes func(n int) time.Duration // below 0: never
	fails bool

	mu       sync.Mutex
	n        int
	inFlight int
	most     int
	dialed   atomic.Int32
	ends     []uint64 // sequences that were ended
}

type conn struct {
	s      *server
	closed chan struct{}
	once   sync.Once
}

func (s *server) dial() drive.Conn {
	s.dialed.Add(1)
	return &conn{s: s, closed: make(chan struct{})}
}

func (c *conn) Close() error { c.once.Do(func() { close(c.closed) }); return nil }

func (c *conn) Do(r *drive.Request, a *drive.Answer) error {
	s := c.s
	s.mu.Lock()
	n := s.n
	s.n++
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	if r.End {
		s.ends = append(s.ends, r.ID)
	}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.inFlight--; s.mu.Unlock() }()
	if s.fails {
		return &drive.Failure{Kind: "cannot connect", Broken: true}
	}
	a.Sent = drive.Now()
	var answered <-chan time.Time
	if d := s.takes(n); d >= 0 {
		answered = time.After(d)
	}
	select {
	case <-answered:
	case <-c.closed:
		return &drive.Failure{Kind: "stopped", Broken: true}
	}
	a.First, a.Last, a.Responses = drive.Now(), drive.Now(), 1
	return nil
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func plan(s *server, limit int64) Plan {
	return Plan{
		Dial: s.dial, Requests: [][]*wire.Prepared{{{Step: &data.Step{}}}}, Recorder: measure.NewRecorder(), Limit: limit, Sleep: time.Sleep,
	}
}

// TestClosed: exactly so many requests, never more at once than there are to be.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: always(10 * time.Millisecond)}
		p := plan(s, 10)
		begun := time.Now()
		l := Closed(p, 3)
		<-l.Done()
		l.Stop(time.Second)
		w := p.Recorder.Take()
		if w.Count != 10 || s.n != 10 || s.most != 3 || time.Since(begun) != 40*time.Millisecond {
			t.Errorf("%d counted, %d sent, %d at once, in %v", w.Count, s.n, s.most, time.Since(begun))
		}
		if w.Mean() != int64(10*time.Millisecond) || w.Deviation() != 0 {
			t.Errorf("mean %d, deviation %d", w.Mean(), w.Deviation())
		}
	})
}

// TestCoordinatedOmission: a server that stalls for a second delays each request that
// is due meanwhile, and their latencies say so.
func TestCoordinatedOmission(t *testing.T) {
	const n, gap = 200, 10 * time.Millisecond
	takes := func(i int) time.Duration {
		if i == 0 {
			return time.Second
		}
		return time.Millisecond
	}
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: takes}
		p := plan(s, n)
		l := Open(p, schedule.Intervals([]time.Duration{gap}), 1, 0)
		<-l.Done()
		l.Stop(time.Second)

		var at, latency, service time.Duration
		var delayed int64
		for i := range n {
			due := time.Duration(i) * gap
			at = max(at, due)
			if at-due > 10*time.Millisecond {
				delayed++
			}
			at += takes(i)
			latency += at - due
			service += takes(i)
		}
		w := p.Recorder.Take()
		if w.Count != n || time.Duration(w.Sums.Latency) != latency || time.Duration(w.Service) != service || w.Delayed != delayed {
			t.Errorf("%d requests: latencies %v, want %v; services %v, want %v; %d delayed, want %d", w.Count, time.Duration(w.Sums.Latency),
				latency, time.Duration(w.Service), service, w.Delayed, delayed)
		}
		if p99 := time.Duration(w.Latency(99)); p99 < 900*time.Millisecond {
			t.Errorf("p99 %v hides that the server stalled", p99)
		}
	})
}

// TestOpenGrows: connections are made as the rate needs them, and no more than that.
func TestOpenGrows(t *testing.T) {
	for most, want := range map[int]int{100: 6, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{takes: always(45 * time.Millisecond)} // at one in 10 ms five are under way
			p := plan(s, 50)
			begun := time.Now()
			l := Open(p, schedule.Intervals([]time.Duration{10 * time.Millisecond}), most, 0)
			<-l.Done()
			l.Stop(time.Second)
			if got := int(s.dialed.Load()); got > want || s.n != 50 || s.most > most {
				t.Errorf("%d connections, want at most %d; %d sent, %d at once", got, want, s.n, s.most)
			}
			if most == 100 && time.Since(begun) != 535*time.Millisecond { // the last is due at 490
				t.Errorf("the load ends after %v", time.Since(begun))
			}
		})
	}
}

// TestStop: requests under way are waited for, then cut.
func TestStop(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{2 * time.Second: time.Second, -1: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := plan(&server{takes: always(takes)}, 0)
			l := Closed(p, 2)
			time.Sleep(time.Second)
			begun := time.Now()
			l.Stop(5 * time.Second)
			l.Stop(0)
			w := p.Recorder.Take()
			if took := time.Since(begun); took != want || w.Failed() != 0 {
				t.Errorf("requests of %v: Stop takes %v, want %v; %d failed", takes, took, want, w.Failed())
			}
		})
	}
}

// TestStopWithoutAnswers: ends of sequences that are sent last find a server that
// answers nothing any more.
func TestStopWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: func(n int) time.Duration {
			if n < 3 {
				return time.Millisecond
			}
			return -1
		}}
		p := plan(s, 0)
		p.Sequences = sequences(t, 2, 10)
		l := Open(p, schedule.Intervals([]time.Duration{10 * time.Millisecond}), 10, 2)
		time.Sleep(time.Second)
		l.Stop(time.Second) // a bubble without an end to wait for fails the test
	})
}

func sequences(t *testing.T, slots, length int) *schedule.Sequences {
	t.Helper()
	o := schedule.SequenceOptions{Slots: slots, First: 1, Length: length, Streams: []int{1}}
	s, err := schedule.NewSequences(o, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSequencesAreEnded: what is under way when a load stops gets its end.
func TestSequencesAreEnded(t *testing.T) {
	for name, begin := range map[string]func(Plan) *Load{
		"closed": func(p Plan) *Load { return Closed(p, 2) },
		"rate":   func(p Plan) *Load { return Open(p, schedule.Intervals([]time.Duration{time.Millisecond}), 10, 2) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{takes: always(5 * time.Millisecond)}
			p := plan(s, 0)
			p.Sequences = sequences(t, 2, 1000)
			l := begin(p)
			time.Sleep(100 * time.Millisecond)
			l.Stop(time.Second)
			slices.Sort(s.ends)
			if w := p.Recorder.Take(); !slices.Equal(s.ends, []uint64{1, 2}) || w.Sequences != 0 {
				t.Errorf("%s: the sequences %v are ended, %d count", name, s.ends, w.Sequences)
			}
		})
	}
}

// TestPauses: a server that cannot be reached is not asked in a busy loop, and Stop
// does not wait for the pause.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(&server{fails: true}, 0)
		l := Closed(p, 1)
		time.Sleep(time.Second) // attempts at 0, 5, 15, 35, 75, 155, 315, 635 ms
		begun := time.Now()
		l.Stop(time.Minute)
		if w := p.Recorder.Take(); w.Failed() != 8 || w.Errors[0].Kind != "cannot connect" || time.Since(begun) != 0 {
			t.Errorf("%+v, stopped after %v", w.Errors, time.Since(begun))
		}
	})
}
