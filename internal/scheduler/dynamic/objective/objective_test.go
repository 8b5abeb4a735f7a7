package objective

import (
	"math"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s: %v, want %v give or take %v", what, got, want, part)
	}
}

// What batches of some sizes took says what those of other sizes take, and is forgotten
// when it changes.
func TestCosts(t *testing.T) {
	var c costs
	if got := c.of(8); got != 0 {
		t.Errorf("unknown cost: %d", got)
	}
	c.learn(4, 12*ms)
	if got := c.of(8); got != 24*ms {
		t.Errorf("of one batch, twice as large: %v, want twice the time", time.Duration(got))
	}
	if got := c.of(2); got != 12*ms {
		t.Errorf("of one batch, half as large: %v, want the same time", time.Duration(got))
	}
	for i := range 40 {
		n := 1 + i*7%32
		c.learn(n, 10*ms+int64(n)*ms)
	}
	for _, n := range []int{1, 5, 16, 32, 40} {
		near(t, "a line", float64(c.of(n)), float64(10*ms+int64(n)*ms), 0.02)
	}
	for i := range 30 {
		n := 1 + i*5%16
		c.learn(n, 40*ms)
	}
	near(t, "after a change", float64(c.of(8)), float64(40*ms), 0.05)
	// Steps are known where they were seen.
	c = costs{}
	for i := range 60 {
		n := []int{8, 16, 17, 24}[i%4]
		took := 10 * ms
		if n > 16 {
			took = 20 * ms
		}
		c.learn(n, took)
	}
	if low, high := c.of(16), c.of(17); low > 13*ms || high < 17*ms {
		t.Errorf("a step: %v and %v", time.Duration(low), time.Duration(high))
	}
}

func TestPlaces(t *testing.T) {
	last := 0
	for n := 1; n <= 1<<20; n++ {
		i := sizeClass(n)
		if i != last && i != last+1 || n <= exactSizes && i != n {
			t.Fatalf("size %d: place %d after %d", n, i, last)
		}
		last = i
	}
	if last > 200 {
		t.Errorf("%d places for a million", last)
	}
}

func TestRate(t *testing.T) {
	r := rate{span: float64(100 * ms)}
	for i := range int64(2000) {
		r.add(i*ms, 2)
	}
	near(t, "2 a millisecond", r.at(1999*ms)*float64(ms), 2, 0.01)
	near(t, "a span later", r.at(2099*ms)*float64(ms), 2/math.E, 0.01)
}

// Late answers leave more of the time unused, within bounds, and it comes back.
func TestUse(t *testing.T) {
	g := New(100*time.Millisecond, 8)
	for range 100 {
		g.Done(1, ms, 1, 1)
	}
	if g.use != leastUse {
		t.Errorf("always late: %v of the time is used, want %v", g.use, leastUse)
	}
	for range 1000 {
		g.Done(1, ms, 1, 0)
	}
	if g.use != mostUse {
		t.Errorf("never late: %v of the time is used, want %v", g.use, mostUse)
	}
}

// A batch that was held up once says nothing of the next ones; two in a row do.
func TestStall(t *testing.T) {
	g := New(100*time.Millisecond, 8)
	for range 30 {
		g.Done(4, 10*ms, 4, 0)
	}
	use := g.use
	g.Done(4, 60*ms, 4, 4)
	near(t, "after one that took six times as long", float64(g.Cost(4)), float64(10*ms), 0.01)
	if g.use != use || g.late != 4 {
		t.Errorf("%v of the time is used, %d late", g.use, g.late)
	}
	for range 3 {
		g.Done(4, 60*ms, 4, 4)
	}
	if got := g.Cost(4); got < 20*ms {
		t.Errorf("after four: %v", time.Duration(got))
	}
}

// A goal that cannot be kept does not shut the model for ever: what finds nothing
// running is taken, and tells when that has changed.
func TestAGoalOutOfReach(t *testing.T) {
	g := New(10*time.Millisecond, 8)
	g.Done(1, 50*ms, 1, 1)
	now := int64(time.Second)
	if _, ok := g.Admit(now, 1, Line{Free: now + 10*ms, Instances: 1}); ok {
		t.Error("taken behind a batch that takes five times the objective")
	}
	if _, ok := g.Admit(now, 1, Line{Free: now, Instances: 1, Idle: true}); !ok {
		t.Error("refused although nothing runs")
	}
	for range 50 {
		g.Done(1, ms, 1, 0)
	}
	if retry, ok := g.Admit(now, 1, Line{Free: now + 2*ms, Instances: 1}); !ok {
		t.Errorf("refused for %v after it has become quick", retry)
	}
}

// Sizes are those of clients: none breaks it.
func FuzzGoal(f *testing.F) {
	f.Add(int64(1), 1, int64(5), 3)
	f.Add(int64(-1), 1<<40, int64(1)<<62, 1<<30)
	f.Fuzz(func(t *testing.T, now int64, size int, took int64, waiting int) {
		g := New(time.Second, 64)
		g.Admit(now, size, Line{Free: now, Waiting: waiting, Instances: 1})
		g.Done(min(size, 64), took, 1, 0)
		g.Admit(now, size, Line{Free: now, Waiting: max(0, waiting), Instances: 0})
		if n := g.Most(now, now, max(1, size), waiting); n < 0 {
			t.Errorf("%d in a batch", n)
		}
		if w := g.Wait(now, now, max(1, size)); w != 0 && w < now {
			t.Errorf("waits until %d at %d", w, now)
		}
		if e := g.Explain(now); math.IsNaN(e.Rate) || math.IsNaN(e.Use) {
			t.Errorf("%+v", e)
		}
	})
}
