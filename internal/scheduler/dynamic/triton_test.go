package dynamic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// fixed is a setting of Triton's dynamic batcher. Delay and timeout are of its queue
// policy; a request whose timeout has passed is refused, or with delays served last.
type fixed struct {
	size      int
	preferred int // 0: none, as Triton completes it
	delay     time.Duration
	queue     int // requests; 0: no bound
	timeout   time.Duration
	delays    bool
}

func (f fixed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "max_batch_size %d", f.size)
	if f.preferred > 0 {
		fmt.Fprintf(&b, ", preferred %d", f.preferred)
	}
	if f.delay > 0 {
		fmt.Fprintf(&b, ", delay %v", f.delay)
	}
	if f.queue > 0 {
		fmt.Fprintf(&b, ", max_queue_size %d", f.queue)
	}
	if f.timeout > 0 {
		action := "REJECT"
		if f.delays {
			action = "DELAY"
		}
		fmt.Fprintf(&b, ", timeout %v %s", f.timeout, action)
	}
	return b.String()
}

// triton is its dynamic batcher in simulated time: one queue, and instances that take a
// batch as soon as they are free. As there, timeouts are seen by who looks at the queue
// for a batch, else twice a second; a request that has timed out holds its place until
// then. Batches that are made ahead of a free instance are not modelled: they grow until
// one takes them, so the same requests are in them.
type triton struct {
	fixed
	l       *load
	queue   []waits // in order
	delayed []waits
	sweep   int64
	o       outcome
}

type waits struct {
	at   int64
	size int
}

const sweeps = int64(500 * time.Millisecond)

// What happens next in simulated time, where it is not that the instance of that number
// ends its batch.
const (
	arrival = -1 - iota // a request comes
	nothing             // all is over
	timer               // a delay has passed
)

// playTriton simulates a load under a setting.
func playTriton(l *load, f fixed) outcome {
	t := &triton{fixed: f, l: l}
	r := rand.New(rand.NewPCG(7, 7))
	ends, runs := make([]int64, l.instances), make([][]waits, l.instances)
	var took []int64
	wake, next := int64(0), 0
	for {
		at, what := int64(math.MaxInt64), nothing
		if next < len(l.arrivals) {
			at, what = l.arrivals[next]+1, arrival
		}
		idle := -1
		for i, x := range runs {
			switch {
			case x == nil:
				idle = i
			case ends[i] < at:
				at, what = ends[i], i
			}
		}
		if wake != 0 && idle >= 0 && wake < at {
			at, what = wake, timer
		}
		if what == nothing {
			break
		}
		switch {
		case what == arrival:
			t.arrive(at, l.size(next), idle < 0)
			next++
		case what >= 0:
			for _, w := range runs[what] {
				took = append(took, at-w.at)
				t.o.end(l, at-w.at, w.size)
			}
			runs[what], idle = nil, what
		}
		for wake = 0; idle >= 0 && len(t.queue)+len(t.delayed) > 0; {
			var batch []waits
			if batch, wake = t.form(at); batch == nil {
				break
			}
			size := 0
			for _, w := range batch {
				size += w.size
			}
			runs[idle], ends[idle] = batch, at+l.takes(r, at, size)
			idle = -1
			for i, x := range runs {
				if x == nil {
					idle = i
				}
			}
		}
	}
	t.o.p99 = percentile(took)
	return t.o
}

func (t *triton) arrive(at int64, size int, busy bool) {
	if busy && at-t.sweep >= sweeps {
		t.sweep = at
		if !t.delays {
			kept := t.queue[:0]
			for _, w := range t.queue {
				if t.expired(at, w) {
					t.o.refused++
				} else {
					kept = append(kept, w)
				}
			}
			t.queue = kept
		}
	}
	if t.fixed.queue > 0 && len(t.queue)+len(t.delayed) >= t.fixed.queue {
		t.o.refused++
		return
	}
	t.queue = append(t.queue, waits{at, size})
}

func (t *triton) expired(at int64, w waits) bool { return t.timeout > 0 && at > w.at+int64(t.timeout) }

// form takes the next batch out of the queue, or says until when it waits.
func (t *triton) form(at int64) ([]waits, int64) {
	largest := t.size
	if t.preferred > 0 {
		largest = t.preferred
	}
	var all []waits
	size, best, nearest, full := 0, 0, int64(0), false
	oldest := int64(math.MaxInt64)
	fresh := 0 // of all, those of the queue that is not delayed
walk:
	for {
		for fresh < len(t.queue) && t.expired(at, t.queue[fresh]) {
			w := t.queue[fresh]
			t.queue = append(t.queue[:fresh], t.queue[fresh+1:]...)
			if t.delays {
				t.delayed = append(t.delayed, w)
			} else {
				t.o.refused++
			}
		}
		var w waits
		switch late := len(all) - fresh; {
		case fresh < len(t.queue):
			w = t.queue[fresh]
			if end := w.at + int64(t.timeout); t.timeout > 0 && (nearest == 0 || end < nearest) {
				nearest = end
			}
		case late < len(t.delayed):
			w = t.delayed[late]
		default:
			break walk
		}
		if len(all) > 0 {
			if size+w.size > largest && best == 0 {
				best, full = len(all), true
			}
			if size+w.size > t.size {
				full = true
				break
			}
		}
		if fresh < len(t.queue) {
			fresh++
		}
		all = append(all, w)
		size += w.size
		oldest = min(oldest, w.at)
		if size == largest {
			best = len(all)
		}
	}
	count := len(all)
	young := t.delay == 0 || at-oldest < int64(t.delay)
	switch {
	case count == 0:
		return nil, 0
	case best > 0 && young:
		count = best
	case full || size >= largest:
	case t.delay == 0 || !young:
	default:
		end := oldest + int64(t.delay)
		if nearest != 0 && nearest+1 < end {
			end = nearest + 1
		}
		return nil, max(end, at+1)
	}
	batch := append([]waits(nil), all[:count]...)
	taken := min(count, fresh)
	t.queue = t.queue[taken:]
	t.delayed = t.delayed[count-taken:]
	return batch, 0
}

// search finds the setting with the most answers in time: from several starting points,
// one knob after the other until none helps. With bounds it may use the queue policy.
func search(l *load, bounds bool) (best fixed, o outcome) {
	tried := map[fixed]outcome{}
	try := func(f fixed) outcome {
		if f.preferred >= f.size {
			f.preferred = 0
		}
		got, ok := tried[f]
		if !ok {
			got = playTriton(l, f)
			tried[f] = got
		}
		if got.good > o.good {
			best, o = f, got
		}
		return got
	}
	starts := []fixed{{size: 32}}
	if bounds {
		part := l.limit / 2
		starts = append(starts, fixed{size: 32, queue: 32}, fixed{size: 16, timeout: part}, fixed{size: 64, timeout: part / 2, queue: 128})
	}
	for _, at := range starts {
		here := try(at)
		for better := true; better; {
			better = false
			for _, f := range neighbours(at, l.limit, bounds) {
				if got := try(f); got.good > here.good {
					at, here, better = f, got, true
				}
			}
		}
	}
	return best, o
}

// neighbours are the settings that differ in one knob.
func neighbours(at fixed, limit time.Duration, bounds bool) (all []fixed) {
	with := func(change func(*fixed)) {
		f := at
		change(&f)
		all = append(all, f)
	}
	for _, n := range []int{1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64} {
		with(func(f *fixed) { f.size = n })
	}
	for _, n := range []int{0, 4, 8, 16, 32, 48} {
		with(func(f *fixed) { f.preferred = n })
	}
	for _, part := range []time.Duration{0, 2, 5, 10, 20, 30} {
		with(func(f *fixed) { f.delay = limit * part / 100 })
	}
	if !bounds {
		return all
	}
	for _, n := range []int{0, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192} {
		with(func(f *fixed) { f.queue = n })
	}
	for _, part := range []time.Duration{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90} {
		with(func(f *fixed) { f.timeout, f.delays = limit*part/100, f.delays && part > 0 })
	}
	if at.timeout > 0 {
		with(func(f *fixed) { f.delays = !f.delays })
	}
	return all
}

// ceiling is more than any scheduler can answer in time, had it known the whole load
// beforehand: instances that work at the rate of the best batch all the time, on any
// request that has come and is not too old.
func ceiling(l *load) int {
	const step = second / 1000
	mean := 1.0
	if l.stalls {
		mean = 1.1
	}
	done, queue, next := 0.0, 0.0, 0
	end := l.arrivals[len(l.arrivals)-1] + int64(l.limit)
	rates := map[float64]float64{} // by the cost of one: those of a load differ by a factor
	for at := int64(0); at < end; at += step {
		one := l.cost(at, 1)
		rate, ok := rates[one]
		if !ok {
			for n := 1; n <= 64; n++ {
				if c := l.cost(at, n); c*0.9 <= float64(l.limit) {
					rate = max(rate, float64(n)/(c*mean))
				}
			}
			rates[one] = rate
		}
		for ; next < len(l.arrivals) && l.arrivals[next] < at+step; next++ {
			queue += float64(l.size(next))
		}
		served := min(queue, rate*float64(l.instances)*float64(step))
		done += served
		queue = min(queue-served, rate*float64(l.instances)*float64(l.limit))
	}
	return int(math.Ceil(done))
}
