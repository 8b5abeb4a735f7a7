package ratelimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func one(name string, count int) Instance {
	return Instance{Needs: []Need{{Name: name, Count: count}}, Priority: 1}
}

func shared(name string, count int) Instance {
	return Instance{Needs: []Need{{Name: name, Count: count, Global: true}}, Priority: 1}
}

func on(device int, in Instance) Instance {
	in.Device = device
	return in
}

func TestRegister(t *testing.T) {
	each := func(name string, count int) Capacity { return Capacity{name, count, EveryDevice} }
	for _, c := range []struct {
		name       string
		capacities []Capacity
		groups     [][]Instance
		want       string // of the last
		usage      string
	}{
		{"the most that any needs", nil, [][]Instance{{one("R", 2), one("R", 5)}, {one("R", 3), one("S", 1)}}, "", "[{R 0 5 0} {S 0 1 0}]"},
		{"by device", nil, [][]Instance{{on(0, one("R", 2)), on(1, one("R", 5))}}, "", "[{R 0 2 0} {R 1 5 0}]"},
		{"global", nil, [][]Instance{{on(0, shared("R", 2)), on(1, shared("R", 5))}}, "", "[{R -2 5 0}]"},
		{"given", []Capacity{each("R", 7)}, [][]Instance{{one("R", 2)}}, "", "[{R 0 7 0}]"},
		{
			"given for a device, which wins when it is more",
			[]Capacity{each("R", 7), {"R", 9, 1}},
			[][]Instance{{on(0, one("R", 2)), on(1, one("R", 2))}},
			"", "[{R 0 7 0} {R 1 9 0}]",
		},
		{"given twice", []Capacity{each("R", 7), each("R", 4), each("R", 5)}, [][]Instance{{one("R", 2)}}, "", "[{R 0 4 0}]"},
		{"a global one given for a device", []Capacity{{"R", 4, 3}}, [][]Instance{{shared("R", 2)}}, "", "[{R -2 4 0}]"},
		{"the last of two needs counts", nil, [][]Instance{{{Needs: []Need{{Name: "R", Count: 4}, {Name: "R", Count: 1}}}}}, "", "[{R 0 1 0}]"},
		{
			"too few",
			[]Capacity{each("R", 1)},
			[][]Instance{{one("R", 1)}, {one("R", 2)}},
			`Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 2`,
			"[{R 0 1 0}]",
		},
		{
			"on another device",
			[]Capacity{{"R", 9, 1}},
			[][]Instance{{one("R", 2)}},
			`Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 2`,
			"[]",
		},
		{
			"not named",
			[]Capacity{each("S", 9)},
			[][]Instance{{one("R", 1)}},
			`Resource count for "R" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1`,
			"[]",
		},
		{
			"global and not", nil,
			[][]Instance{{one("R", 1)}, {shared("R", 1)}},
			`Resource "R" is present as both global and device-specific resource in the model configuration.`, "[{R 0 1 0}]",
		},
	} {
		l := New(c.capacities)
		var err error
		for _, g := range c.groups {
			_, err = l.Register(g)
		}
		if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && got != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if got := fmt.Sprint(l.Usage()); got != c.usage {
			t.Errorf("%s: usage %s, want %s", c.name, got, c.usage)
		}
	}
	l := New(nil)
	if g, err := l.Register([]Instance{{Device: 1}}); g.Limited() || g.Needs(0) || err != nil || !g.Ask(0) {
		t.Errorf("instances that need nothing: %v, %v", g, err)
	}
	if g, err := (*Limiter)(nil).Register([]Instance{one("R", 1)}); g != nil || g.Limited() || g.Needs(0) || err != nil {
		t.Errorf("without a limiter: %v, %v", g, err)
	}
	large, _ := l.Register([]Instance{one("R", 5)})
	_, _ = l.Register([]Instance{one("R", 2)})
	large.Close()
	large.Close()
	if got := fmt.Sprint(l.Usage()); got != "[{R 0 2 0}]" {
		t.Errorf("after the largest has gone: %s", got)
	}
}

// model asks again after each execution, as a scheduler under load does.
type model struct {
	g       *Group
	runs    int
	running bool
}

func (m *model) ask() { m.running = m.running || m.g.Ask(0) }

func saturate(t *testing.T, l *Limiter, in ...Instance) []*model {
	t.Helper()
	var all []*model
	for _, i := range in {
		g, err := l.Register([]Instance{i})
		if err != nil {
			t.Fatal(err)
		}
		m := &model{g: g}
		g.OnTurn(m.ask)
		all = append(all, m)
	}
	return all
}

// end ends the execution of one model, which wants to run again.
func (m *model) end(again bool) {
	m.running = false
	m.runs++
	if again {
		m.ask()
	}
	var others Turns
	own := m.g.Release(0, &others)
	others.Tell()
	if own {
		m.ask()
	}
}

func TestTurnsByPriority(t *testing.T) {
	a, b, c := one("R", 1), one("R", 1), one("R", 1)
	b.Priority, c.Priority = 2, 4
	all := saturate(t, New(nil), a, b, c)
	for _, m := range all {
		m.ask()
	}
	for range 700 {
		at := slices.IndexFunc(all, func(m *model) bool { return m.running })
		all[at].end(true)
	}
	if r := []int{all[0].runs, all[1].runs, all[2].runs}; r[0] < 396 || r[0] > 404 || r[1] < 198 || r[1] > 202 || r[2] < 98 || r[2] > 102 {
		t.Errorf("%v executions, want about 400, 200 and 100", r)
	}
}

// The orders are those of Triton 2.51, where loading an instance counts as two
// executions.
func TestTurnsAreTritons(t *testing.T) {
	prioritized := func(n int) Instance {
		in := one("R", 1)
		in.Priority = n
		return in
	}
	for _, c := range []struct {
		first, second int // priorities
		want          string
	}{
		{1, 1, "12121212"},
		{1, 2, "11211211211"},
		{2, 1, "12222122122"},
	} {
		all := saturate(t, New(nil), prioritized(c.first), prioritized(c.second))
		all[0].ask()
		all[1].ask()
		got := ""
		for range c.want {
			at := slices.IndexFunc(all, func(m *model) bool { return m.running })
			got += strconv.Itoa(at + 1)
			all[at].end(true)
		}
		if got != c.want {
			t.Errorf("priorities %d and %d: order %s, want %s", c.first, c.second, got, c.want)
		}
	}
}

// One that was idle, or has just been loaded, does not shut out the others
// until it has caught up.
func TestNobodySavesUpTurns(t *testing.T) {
	l := New(nil)
	all := saturate(t, l, one("R", 1), one("R", 1))
	a, b := all[0], all[1]
	a.ask()
	for range 1000 {
		a.end(true)
	}
	b.ask()
	for range 20 {
		if a.running {
			a.end(true)
		} else {
			b.end(true)
		}
	}
	if b.runs < 9 || b.runs > 11 {
		t.Errorf("the newcomer had %d of 20 turns", b.runs)
	}
}

// One that needs much gets it although those that need little would never leave
// so much free; and who needs something else does not wait behind it.
func TestTheFirstInLineIsNotPassed(t *testing.T) {
	l := New([]Capacity{{"R", 2, EveryDevice}, {"S", 1, EveryDevice}})
	all := saturate(t, l, one("R", 1), one("R", 1), one("R", 2), one("S", 1))
	a, b, large, other := all[0], all[1], all[2], all[3]
	a.ask()
	b.ask()
	a.end(true)
	large.ask()
	b.end(false)
	b.ask()
	if !a.running || b.running || large.running {
		t.Fatalf("running: %v %v %v, want the small one that began to wait later to be kept back", a.running, b.running, large.running)
	}
	if other.ask(); !other.running {
		t.Error("one that needs another resource waits")
	}
	a.end(true)
	if !large.running {
		t.Fatal("the large one has not got its turn")
	}
	large.end(false)
	if !a.running || !b.running {
		t.Error("the small ones do not run")
	}
}

func TestWithdraw(t *testing.T) {
	l := New([]Capacity{{"R", 2, EveryDevice}})
	all := saturate(t, l, one("R", 1), one("R", 2), one("R", 1))
	all[0].ask()
	all[1].ask()
	all[2].ask() // kept back by the second
	if all[2].running {
		t.Fatal("the third has passed the second")
	}
	var others Turns
	all[1].g.Withdraw(&others)
	others.Tell()
	if !all[2].running {
		t.Error("the third still waits for one that has gone")
	}
	// A turn that came and is not used is given back.
	taken := false
	all[1].g.OnTurn(func() { taken = true })
	all[1].ask()
	all[0].end(false)
	all[2].end(false)
	if !taken {
		t.Fatal("no turn")
	}
	all[1].g.WithdrawOne(0, &others)
	if u := l.Usage()[0].Used; u != 0 {
		t.Errorf("%d units in use", u)
	}
	if all[1].pass() != 0 {
		t.Error("a turn that was not used counts")
	}
}

func (m *model) pass() int64 {
	m.g.limiter.mu.Lock()
	defer m.g.limiter.mu.Unlock()
	return m.g.instances[0].pass - m.g.instances[0].needs[0].pool.passed
}

func TestCloseGivesBack(t *testing.T) {
	l := New(nil)
	all := saturate(t, l, one("R", 1), one("R", 1))
	all[0].ask()
	all[1].ask()
	all[0].g.Close()
	if !all[1].running || all[0].g.Ask(0) || all[0].g.AskAny(func(int) bool { return true }) != -1 {
		t.Error("an unloaded model keeps its resource, or gets it again")
	}
	var others Turns
	if all[0].g.Release(0, &others) {
		t.Error("release after close")
	}
}

func TestPassDoesNotWrap(t *testing.T) {
	in := one("R", 1)
	in.Priority = math.MaxUint32
	m := saturate(t, New(nil), in)[0]
	m.g.instances[0].pass = math.MaxInt64 - 3
	m.ask()
	m.end(true)
	if m.g.instances[0].pass != math.MaxInt64 || !m.running {
		t.Errorf("pass %d", m.g.instances[0].pass)
	}
}

// TestRandom plays random models against what must always hold: no resource is
// overdrawn, nobody waits who could go, and everybody gets a turn.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		capacities := []Capacity{{"A", 3, EveryDevice}, {"B", 2, EveryDevice}, {"G", 2, EveryDevice}}
		var in []Instance
		for range 2 + rnd.IntN(8) {
			i := Instance{Device: rnd.IntN(2), Priority: 1 + rnd.IntN(3), Needs: []Need{{Name: "A", Count: 1 + rnd.IntN(3)}}}
			if rnd.IntN(2) == 0 {
				i.Needs = append(i.Needs, Need{Name: "B", Count: rnd.IntN(3)})
			}
			if rnd.IntN(2) == 0 {
				i.Needs = append(i.Needs, Need{Name: "G", Global: true, Count: 1 + rnd.IntN(2)})
			}
			in = append(in, i)
		}
		l := New(capacities)
		all := saturate(t, l, in...)
		waited := make([]int, len(all)) // executions of others since it asked
		for step := range 3000 {
			i := rnd.IntN(len(all))
			switch m := all[i]; {
			case m.running:
				m.end(rnd.IntN(3) > 0)
				for k := range waited {
					waited[k]++
				}
			case m.g.instances[0].waits && rnd.IntN(20) == 0:
				var others Turns
				m.g.Withdraw(&others)
				others.Tell()
			default:
				if !m.g.instances[0].waits {
					waited[i] = 0
				}
				m.ask()
			}
			used := map[key]int64{}
			for k, m := range all {
				if m.running {
					waited[k] = 0
				}
				if m.running != m.g.instances[0].runs {
					t.Fatalf("seed %d, step %d: running %v, the limiter says %v", seed, step, m.running, m.g.instances[0].runs)
				}
				if waited[k] > 40*len(all) && m.g.instances[0].waits {
					t.Fatalf("seed %d, step %d: model %d has waited for %d executions", seed, step, k, waited[k])
				}
				for _, n := range m.g.instances[0].needs {
					if m.running {
						used[n.pool.key] += n.count
					}
				}
			}
			for _, p := range l.pools {
				if p.used != used[p.key] || p.used > p.limit || p.reserved != 0 {
					t.Fatalf("seed %d, step %d: %+v, in use %d", seed, step, p, used[p.key])
				}
			}
			if len(l.waiting) > 0 && l.waiting[0].fits() {
				t.Fatalf("seed %d, step %d: the first in line could go", seed, step)
			}
		}
	}
}

// TestHammer has several goroutines for each of more models than may run.
func TestHammer(t *testing.T) {
	l := New([]Capacity{{"R", 3, EveryDevice}})
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for k := range 6 {
		g, err := l.Register([]Instance{one("R", 1+k%2), one("R", 1)})
		if err != nil {
			t.Fatal(err)
		}
		turn := make(chan struct{}, 1)
		g.OnTurn(func() {
			select {
			case turn <- struct{}{}:
			default:
			}
		})
		wg.Go(func() {
			for range 500 {
				i := g.AskAny(func(int) bool { return true })
				for i < 0 {
					<-turn
					i = g.AskAny(func(int) bool { return true })
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				inside.Add(-1)
				var others Turns
				g.Release(i, &others)
				g.Withdraw(&others)
				others.Tell()
			}
		})
	}
	wg.Wait()
	if u := l.Usage()[0].Used; u != 0 || most.Load() > 3 {
		t.Errorf("%d units in use at the end, %d at once", u, most.Load())
	}
}
