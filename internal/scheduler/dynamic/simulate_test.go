package dynamic

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/scheduler"
	"github.com/nesoserve/neso/tensor"
)

// load is a simulated one: requests at times, to a model.
type load struct {
	name     string
	arrivals []int64
	sizes    []int // of the requests, in turn; nil: all have one
	// cost is how long a batch takes, at a time; a tenth more or less at random.
	cost func(at int64, size int) float64
	// stalls says that one batch of twenty takes three times as long.
	stalls    bool
	limit     time.Duration
	instances int
	overload  bool
	// surprises says that some batches take longer than the objective whatever is done.
	surprises bool
}

// size of a request by its number.
func (l *load) size(i int) int {
	if l.sizes == nil {
		return 1
	}
	return l.sizes[i%len(l.sizes)]
}

// items are those of all requests.
func (l *load) items() (n int) {
	for i := range l.arrivals {
		n += l.size(i)
	}
	return n
}

// takes is how long a batch that begins now takes.
func (l *load) takes(r *rand.Rand, at int64, size int) int64 {
	t := l.cost(at, size) * (0.9 + 0.2*r.Float64())
	if l.stalls && r.IntN(20) == 0 {
		t *= 3
	}
	return int64(t)
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
	// Eight times the cost for a while, then four times, then as at first.
	phases := func(at int64, size int) float64 {
		return []float64{1, 8, 4, 1, 8}[min(4, at/(3*second))] * typical(at, size)
	}
	swings := func(at int64, size int) float64 {
		return (2 - math.Cos(float64(at)/float64(5*second)*2*math.Pi)) * typical(at, size)
	}
	often := func(at int64) float64 {
		if at%second < second/2 {
			return 4000
		}
		return 400
	}
	mixed := []int{1, 1, 4, 1, 1, 16, 1, 1, 4, 1}                                               // 3.1 in the mean
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
		{name: "sizes of 1, 4 and 16, nine tenths", arrivals: poisson(12, 15*second, steady(245)), sizes: mixed, cost: typical},
		{
			name: "sizes of 1, 4 and 16, twice too much", arrivals: poisson(13, 15*second, steady(580)),
			sizes: mixed, cost: typical, overload: true,
		},
		{
			name: "batches that stall, twice too much", arrivals: poisson(14, 15*second, steady(1800)),
			cost: typical, stalls: true, overload: true, surprises: true,
		},
		{name: "bursts, far too much", arrivals: poisson(15, 15*second, often), cost: typical, overload: true},
		{name: "cost swings threefold, too much", arrivals: poisson(16, 15*second, steady(1200)), cost: swings, overload: true},
		{
			name: "cost by turns 1, 8, 4, 1, 8, too much", arrivals: poisson(17, 15*second, steady(1200)),
			cost: phases, overload: true, surprises: true,
		},
	}
}

// outcome of a simulation: items that were answered in time and late, and requests that
// were refused.
type outcome struct {
	good, late, refused int
	p99                 time.Duration // of the requests that were answered
}

// end notes the answer of a request.
func (o *outcome) end(l *load, latency int64, size int) {
	if latency <= int64(l.limit) {
		o.good += size
	} else {
		o.late += size
	}
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
		at, what := int64(math.MaxInt64), nothing
		if next < len(l.arrivals) {
			at, what = l.arrivals[next]+1, arrival
		}
		for i, x := range runs {
			if x != nil && ends[i] < at {
				at, what = ends[i], i
			}
		}
		if w := b.wake(); w != 0 && w < at {
			at, what = max(w, end), timer
		}
		if what == nothing {
			break
		}
		end = at
		var fx effects
		switch {
		case what == arrival:
			size := l.size(next)
			next++
			if _, ok := b.admits(at, size); !ok {
				o.refused++
				continue
			}
			e := b.entries.Take()
			e.request = simulated(size)
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
				took = append(took, at-e.queued)
				o.end(l, at-e.queued, e.size)
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
			ends[x.Instance] = at + l.takes(r, at, x.Size)
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

// simulated returns the request of a size, which is the same for all.
var simulated = func() func(size int) *infer.Request {
	var made sync.Map
	return func(size int) *infer.Request {
		r, ok := made.Load(size)
		if !ok {
			r, _ = made.LoadOrStore(size, makeRequest("simulated", map[string]string{"without": "", "size": strconv.Itoa(size)}))
		}
		return r.(*infer.Request)
	}
}()

func simulatedBatcher(l *load, c *modelconfig.DynamicBatching, size int) *batcher {
	same := scheduler.NewCompatibility(&modelconfig.Config{
		MaxBatchSize: size, Inputs: []modelconfig.Input{{Name: "IN", Dims: tensor.Shape{1}}},
	})
	return newBatcher(size, c, same, l.instances, 1, 0)
}
