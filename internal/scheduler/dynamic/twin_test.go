package dynamic

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
)

// twin is the batcher again, written for clearness: one slice of requests that
// is sorted and searched anew at every step.
type twin struct {
	max, largest int
	preferred    map[int]bool
	delay        int64
	levels       uint64
	policies     map[uint64]modelconfig.QueuePolicy
	policy       modelconfig.QueuePolicy
	load         []int
	prefetch     bool
	queue        []twinRequest
	arrivals     int
}

type twinRequest struct {
	name     string
	size     int
	shape    int
	level    uint64
	queued   int64
	deadline int64
	late     int64 // when it was put back, 0 for fresh
	number   int
}

func (w *twin) of(level uint64) modelconfig.QueuePolicy {
	if p, ok := w.policies[level]; ok && w.levels > 0 {
		return p
	}
	return w.policy
}

func (w *twin) enqueue(now int64, r twinRequest, timeout uint64) bool {
	p := w.of(r.level)
	waiting := 0
	for _, q := range w.queue {
		if q.level == r.level {
			waiting++
		}
	}
	if p.MaxQueueSize > 0 && waiting >= p.MaxQueueSize {
		return false
	}
	d := p.DefaultTimeout
	if o := time.Duration(timeout) * time.Microsecond; p.AllowTimeoutOverride && timeout > 0 && o < d {
		d = o
	}
	if d > 0 {
		r.deadline = now + int64(d)
	}
	w.arrivals++
	r.queued, r.number = now, w.arrivals
	w.queue = append(w.queue, r)
	return true
}

func (w *twin) cancel(name string) bool {
	n := len(w.queue)
	w.queue = slices.DeleteFunc(w.queue, func(r twinRequest) bool { return r.name == name })
	return len(w.queue) < n
}

func (w *twin) step(now int64) (log []string) {
	var due []twinRequest
	for _, r := range w.queue {
		if r.deadline > 0 && r.deadline <= now {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b twinRequest) int {
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.number, b.number))
	})
	for i, r := range due {
		w.cancel(r.name)
		if w.of(r.level).Action == modelconfig.Delay {
			r.late, r.deadline = now<<8+int64(i), 0
			w.queue = append(w.queue, r)
		} else {
			log = append(log, "expire "+r.name)
		}
	}
	for {
		slices.SortStableFunc(w.queue, func(a, b twinRequest) int {
			return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.late, b.late), cmp.Compare(a.number, b.number))
		})
		slot := slices.Index(w.load, 0)
		ahead := false
		if slot < 0 && w.prefetch {
			slot = slices.Index(w.load, 1)
			ahead = true
		}
		if slot < 0 {
			return log
		}
		n := w.choose(now)
		if n == 0 || ahead && sizes(w.queue[:n]) < w.largest {
			return log
		}
		line := "run"
		for _, r := range w.queue[:n] {
			line += " " + r.name
		}
		log = append(log, fmt.Sprintf("%s on %d", line, slot))
		w.queue = slices.Delete(w.queue, 0, n)
		w.load[slot]++
	}
}

func sizes(q []twinRequest) (n int) {
	for _, r := range q {
		n += r.size
	}
	return n
}

// choose returns how many requests from the front are to be sent now.
func (w *twin) choose(now int64) int {
	fit := 0 // the longest prefix that makes a batch
	for fit < len(w.queue) && sizes(w.queue[:fit+1]) <= w.max && w.queue[fit].shape == w.queue[0].shape {
		fit++
	}
	if fit == 0 {
		return 0
	}
	best := 0
	for n := 1; n <= fit; n++ {
		if w.preferred[sizes(w.queue[:n])] {
			best = n
		}
	}
	// Where the largest preferred size would be exceeded, with nothing preferred
	// before, what is there counts as preferred.
	for n := 1; n <= fit && best == 0; n++ {
		if n < len(w.queue) && sizes(w.queue[:n+1]) > w.largest {
			best = n
		}
	}
	age := int64(0)
	for _, r := range w.queue[:fit] {
		age = max(age, now-r.queued)
	}
	late := w.delay > 0 && age >= w.delay
	if best > 0 && !late {
		return best
	}
	if fit < len(w.queue) || sizes(w.queue[:fit]) >= w.largest || late || w.delay == 0 {
		return fit
	}
	return 0
}

func TestBatcherAgainstTwin(t *testing.T) {
	for seed := range uint64(400) {
		if got := compare(seed); got != "" {
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
}

func compare(seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 7))
	randomPolicy := func() modelconfig.QueuePolicy {
		p := modelconfig.QueuePolicy{Action: modelconfig.TimeoutAction(rnd.IntN(2)), AllowTimeoutOverride: rnd.IntN(2) == 0}
		if rnd.IntN(2) == 0 {
			p.DefaultTimeout = time.Duration(1+rnd.IntN(40)) * time.Microsecond
		}
		if rnd.IntN(3) == 0 {
			p.MaxQueueSize = 1 + rnd.IntN(6)
		}
		return p
	}
	c := &modelconfig.DynamicBatching{Policies: map[uint64]modelconfig.QueuePolicy{}}
	limit, instances, depth := 1+rnd.IntN(8), 1+rnd.IntN(3), 1+rnd.IntN(2)
	if rnd.IntN(2) == 0 {
		c.MaxQueueDelay = time.Duration(1+rnd.IntN(30)) * time.Microsecond
	}
	for range rnd.IntN(3) {
		c.PreferredBatchSizes = append(c.PreferredBatchSizes, 1+rnd.IntN(limit))
	}
	if rnd.IntN(3) > 0 {
		c.DefaultPolicy = randomPolicy()
	}
	if rnd.IntN(2) == 0 {
		c.PriorityLevels = 1 + rnd.Uint64N(3)
		c.Policies[1+rnd.Uint64N(c.PriorityLevels)] = randomPolicy()
	}
	o := fmt.Sprintf("batcher max=%d instances=%d depth=%d", limit, instances, depth)
	p := newPlayer(strings.Fields(o)[1:])
	p.b = newBatcher(limit, c, p.b.same, instances, depth, 0)
	w := &twin{
		max: limit, preferred: map[int]bool{}, delay: int64(c.MaxQueueDelay), levels: c.PriorityLevels, policies: c.Policies,
		policy: c.DefaultPolicy, load: make([]int, instances),
	}
	for _, s := range p.b.preferred {
		w.preferred[s], w.largest = true, max(w.largest, s)
	}
	p.b.patient = false // share.txt and ahead.txt hold what follows from it
	w.prefetch = depth > 1 && c.PriorityLevels == 0 && c.DefaultPolicy.DefaultTimeout == 0 && !c.DefaultPolicy.AllowTimeoutOverride &&
		c.DefaultPolicy.MaxQueueSize == 0

	now := int64(1)
	var names, running []string
	for i := range 300 {
		now += int64(rnd.IntN(8)) * 1000
		if at := p.b.wake(); at > 0 && rnd.IntN(4) == 0 {
			now = max(now, at)
		}
		var event string
		var fx effects
		switch k := rnd.IntN(10); {
		case k < 5:
			name := fmt.Sprintf("r%d", i)
			size, shape, timeout := 1+rnd.IntN(min(limit, 3)), 1+rnd.IntN(8)/7, rnd.IntN(3)*10
			level := uint64(1)
			if c.PriorityLevels > 0 {
				level = 1 + rnd.Uint64N(c.PriorityLevels)
			}
			event = fmt.Sprintf("enqueue %s size=%d level=%d timeout=%d shape=%d", name, size, level, timeout, shape)
			e := p.b.entries.Take()
			e.request = makeRequest(name, transcript.Options(strings.Fields(event)[2:]))
			got := p.b.enqueue(now, e)
			want := w.enqueue(now, twinRequest{name: name, size: size, shape: shape, level: level}, uint64(timeout))
			if got != want {
				return fmt.Sprintf("%v: %s: accepted %v, want %v", now, event, got, want)
			}
			if !got {
				p.b.free(e)
				continue
			}
			p.entries[name] = e
			names = append(names, name)
		case k < 6 && len(names) > 0:
			name := names[rnd.IntN(len(names))]
			event = "cancel " + name
			e := p.entries[name]
			got, want := e != nil && p.b.cancel(e), w.cancel(name)
			if got != want {
				return fmt.Sprintf("%v: %s: %v, want %v", now, event, got, want)
			}
			delete(p.entries, name)
		case k < 9 && len(running) > 0:
			j := rnd.IntN(len(running))
			x := p.running[running[j]]
			event = "done " + running[j]
			delete(p.running, running[j])
			running = slices.Delete(running, j, j+1)
			w.load[x.Instance]--
			done(now, p.b, p.limits, x, &fx)
		default:
			event = "tick"
		}
		step(now, p.b, p.limits, &fx)
		var got []string
		for e := fx.Failed; e != nil; e = e.next {
			got = append(got, "expire "+e.request.ID)
			delete(p.entries, e.request.ID)
		}
		for x := fx.First; x != nil; x = x.Next {
			line := "run"
			for _, e := range x.Entries {
				line += " " + e.request.ID
				delete(p.entries, e.request.ID)
			}
			p.running[x.Entries[0].request.ID] = x
			running = append(running, x.Entries[0].request.ID)
			got = append(got, fmt.Sprintf("%s on %d", line, x.Instance))
		}
		if want := w.step(now); !slices.Equal(got, want) {
			return fmt.Sprintf("%v: %s: %q, want %q\nmax %d preferred %v delay %v depth %d %+v", now, event, got, want, limit, p.b.preferred,
				c.MaxQueueDelay, depth, c)
		}
		if at := p.b.wake(); at != 0 && at <= now {
			return fmt.Sprintf("%v: %s: wake-up at %v is not in the future", now, event, at)
		}
	}
	return ""
}
