package dynamic

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

var report = flag.String("report", "", "file for the table of TestObjectiveAgainstFixedSettings")

// load is a simulated one: requests of size one, at times, to a model.
type load struct {
	name     string
	arrivals []int64
	// cost is how long a batch takes, at a time; a tenth more or less at random.
	cost      func(at int64, size int) float64
	limit     time.Duration
	instances int
	overload  bool
}

const second = int64(time.Second)

// poisson makes arrivals for so long, of a rate in 1/s that may change.
func poisson(seed uint64, length int64, rate func(at int64) float64) []int64 {
	r, most := rand.New(rand.NewPCG(seed, 1)), 0.0
	for at := int64(0); at < length; at += length / 1000 {
		most = max(most, rate(at))
	}
	var all []int64
	for at := 0.0; ; {
		at += r.ExpFloat64() / most * float64(second)
		if int64(at) >= length {
			return all
		}
		if r.Float64()*most < rate(int64(at)) {
			all = append(all, int64(at))
		}
	}
}

// recorded are the arrivals of bench/arrivals.txt, so many times as dense, again and again
// for so long.
func recorded(t *testing.T, length int64, dense int64) []int64 {
	t.Helper()
	text, err := os.ReadFile("../../../bench/arrivals.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for at := int64(0); ; {
		for line := range strings.Lines(string(text)) {
			gap, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if at += gap * int64(time.Microsecond) / dense; at >= length {
				return all
			}
			all = append(all, at)
		}
	}
}

func steady(rate float64) func(int64) float64 { return func(int64) float64 { return rate } }

func line(start, each float64) func(int64, int) float64 {
	return func(_ int64, size int) float64 { return start + each*float64(size) }
}

func loads(t *testing.T) []load {
	t.Helper()
	const ms = 1e6
	typical := line(8*ms, 1*ms) // 64: 72 ms, 889/s
	bursts := func(at int64) float64 {
		if at%(2*second) < second/4 {
			return 2400
		}
		return 150
	}
	day := func(at int64) float64 { return 450 + 400*math.Sin(float64(at)/float64(10*second)*2*math.Pi) }
	slower := func(at int64, size int) float64 {
		if at > 8*second {
			return 2 * typical(at, size)
		}
		return typical(at, size)
	}
	steps := func(_ int64, size int) float64 { return 4*ms + 9*ms*math.Ceil(float64(size)/16) } // tiles of a GPU
	return []load{
		{name: "steady, a third", arrivals: poisson(1, 15*second, steady(300)), cost: typical},
		{name: "steady, nine tenths", arrivals: poisson(2, 15*second, steady(750)), cost: typical},
		{name: "twice too much", arrivals: poisson(3, 15*second, steady(1800)), cost: typical, overload: true},
		{name: "five times too much", arrivals: poisson(4, 10*second, steady(4500)), cost: typical, overload: true},
		{name: "bursts", arrivals: poisson(5, 15*second, bursts), cost: typical},
		{name: "day and night", arrivals: poisson(6, 15*second, day), cost: typical},
		{name: "cost doubles half way", arrivals: poisson(7, 15*second, steady(380)), cost: slower},
		{name: "cost doubles, too much then", arrivals: poisson(8, 15*second, steady(700)), cost: slower},
		{name: "tiles of sixteen", arrivals: poisson(9, 15*second, steady(1000)), cost: steps},
		{name: "two instances, nine tenths", arrivals: poisson(10, 15*second, steady(1500)), cost: typical, instances: 2},
		{name: "tight objective", arrivals: poisson(11, 15*second, steady(300)), cost: typical, limit: 40 * time.Millisecond},
		{name: "recorded", arrivals: recorded(t, 16*second, 1), cost: typical},
		{name: "recorded, twice as dense", arrivals: recorded(t, 16*second, 2), cost: typical},
		{name: "recorded, six times as dense", arrivals: recorded(t, 10*second, 6), cost: typical, overload: true},
	}
}

// outcome of a simulation.
type outcome struct {
	good, late, refused int
	p99                 time.Duration // of those answered
}

// play simulates a load. The batcher is the server's own; time is not.
func play(l *load, b *batcher) outcome {
	r := rand.New(rand.NewPCG(7, 7))
	ends := make([]int64, l.instances)
	runs := make([]*batch, l.instances)
	var o outcome
	var took []int64
	end := int64(0)
	for next := 0; ; {
		at, what := int64(math.MaxInt64), -2
		if next < len(l.arrivals) {
			at, what = l.arrivals[next]+1, -1
		}
		for i, x := range runs {
			if x != nil && ends[i] < at {
				at, what = ends[i], i
			}
		}
		if w := b.wake(); w != 0 && w < at {
			at, what = max(w, end), -3
		}
		if what == -2 {
			break
		}
		end = at
		var fx effects
		switch {
		case what == -1:
			next++
			if _, ok := b.admits(at, 1); !ok {
				o.refused++
				continue
			}
			e := b.entries.Take()
			e.request = simulated
			if !b.enqueue(at, e) {
				o.refused++
				b.free(e)
				continue
			}
			b.step(at, &fx)
		case what >= 0:
			x := runs[what]
			runs[what] = nil
			for _, e := range x.Entries {
				latency := at - e.queued
				took = append(took, latency)
				if latency <= int64(l.limit) {
					o.good++
				} else {
					o.late++
				}
			}
			b.done(at, x)
			b.step(at, &fx)
		default:
			b.step(at, &fx)
		}
		for e := fx.Failed; e != nil; e = e.next {
			o.refused++
		}
		for x := fx.First; x != nil; x = x.Next {
			runs[x.Instance] = x
			ends[x.Instance] = at + int64(l.cost(at, x.Size)*(0.9+0.2*r.Float64()))
		}
	}
	o.p99 = percentile(took)
	return o
}

func percentile(all []int64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return time.Duration(all[len(all)*99/100])
}

var simulated = makeRequest("simulated", map[string]string{"without": ""})

func simulatedBatcher(l *load, c *modelconfig.DynamicBatching, size int) *batcher {
	same := scheduler.NewCompatibility(&modelconfig.Config{
		MaxBatchSize: size, Inputs: []modelconfig.Input{{Name: "IN", Dims: tensor.Shape{1}}},
	})
	return newBatcher(size, c, same, l.instances, 1, 0)
}

// fixed is a setting of Triton's.
type fixed struct {
	size, queue int
	delay       time.Duration
}

func (f fixed) String() string {
	return fmt.Sprintf("max_batch_size %d, delay %v, max_queue_size %d", f.size, f.delay, f.queue)
}

// bestFixed searches the setting with the most answers in time; without a bound on the
// queue, or with one.
func bestFixed(l *load, queues ...int) (best fixed, o outcome) {
	for _, size := range []int{4, 8, 16, 32, 48, 64} {
		for _, delay := range []time.Duration{0, 5 * time.Millisecond, 10 * time.Millisecond} {
			for _, queue := range queues {
				c := &modelconfig.DynamicBatching{MaxQueueDelay: delay, DefaultPolicy: modelconfig.QueuePolicy{MaxQueueSize: queue}}
				b := simulatedBatcher(l, c, size)
				b.patient = false // what only our batcher does
				if got := play(l, b); got.good > o.good {
					best, o = fixed{size, queue, delay}, got
				}
			}
		}
	}
	return best, o
}

// The promise of an objective: at least 95 % of the answers in time that the best fixed
// setting gives, which knows the whole load beforehand; at overload twice those of the
// best one whose queue has no bound, as is Triton's default.
func TestObjectiveAgainstFixedSettings(t *testing.T) {
	var table strings.Builder
	table.WriteString("| load | requests | in time | p99 | late | best fixed | in time | ratio | " +
		"best without a bound on the queue | ratio |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range loads(t) {
		l.instances = max(1, l.instances)
		if l.limit == 0 {
			l.limit = 100 * time.Millisecond
		}
		b := simulatedBatcher(&l, &modelconfig.DynamicBatching{}, 64)
		b.aimFor(l.limit)
		got := play(&l, b)
		free, unbound := bestFixed(&l, 0)
		best, bound := bestFixed(&l, 16, 32, 64, 96)
		if unbound.good > bound.good {
			best, bound = free, unbound
		}
		ratio, over := float64(got.good)/float64(bound.good), float64(got.good)/float64(max(1, unbound.good))
		fmt.Fprintf(&table, "| %s | %d | %d | %v | %.2f %% | %v | %d | %.2f | %v | %.2f |\n", l.name, len(l.arrivals), got.good,
			got.p99.Round(time.Millisecond), 100*float64(got.late)/float64(max(1, got.good+got.late)), best, bound.good, ratio, free, over)
		if ratio < 0.95 {
			t.Errorf("%s: %d in time, %.2f of the best fixed setting (%v: %d)", l.name, got.good, ratio, best, bound.good)
		}
		if l.overload && over < 2 {
			t.Errorf("%s: %.2f times the best setting without a bound on the queue (%v: %d)", l.name, over, free, unbound.good)
		}
		if got.p99 > l.limit+l.limit/20 {
			t.Errorf("%s: p99 %v of an objective of %v", l.name, got.p99, l.limit)
		}
	}
	t.Log("\n" + table.String())
	if *report != "" {
		text := "# Adaptive batching against the best fixed settings\n\nWritten by `make bench-adaptive`. Simulated " +
			"time, the server's own batcher; batches take a tenth more or less than said, at random. What is compared, and what the loads are: " +
			"internal/scheduler/dynamic/simulate_test.go. [Adaptive batching](../docs/models/adaptive-batching.md).\n\n" + table.String()
		if err := os.WriteFile(*report, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
