package dynamic

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig"
)

var report = flag.String("report", "", "file for the table of TestObjectiveAgainstFixedSettings, which searches all settings anew")

// bestFixed has the settings that a search found for each load, without bounds of the queue
// and with them; -report writes it anew.
const bestFixed = "testdata/best-fixed.settings"

// found are the best settings for a load.
type found struct{ free, bound fixed }

func readFound(t *testing.T) map[string]found {
	t.Helper()
	text, err := os.ReadFile(bestFixed)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]found{}
	for line := range strings.Lines(string(text)) {
		name, settings, ok := strings.Cut(strings.TrimSpace(line), ": ")
		var f found
		var free, bound [6]int
		var each []any
		for _, list := range []*[6]int{&free, &bound} {
			for i := range list {
				each = append(each, &list[i])
			}
		}
		if _, err := fmt.Sscan(settings, each...); err != nil || !ok {
			t.Fatalf("%s: %q: %v", bestFixed, line, err)
		}
		f.free, f.bound = numbered(free), numbered(bound)
		all[name] = f
	}
	return all
}

func numbered(n [6]int) fixed {
	return fixed{n[0], n[1], time.Duration(n[2]) * time.Microsecond, n[3], time.Duration(n[4]) * time.Microsecond, n[5] != 0}
}

func (f fixed) numbers() string {
	delays := 0
	if f.delays {
		delays = 1
	}
	return fmt.Sprint(f.size, f.preferred, f.delay.Microseconds(), f.queue, f.timeout.Microseconds(), delays)
}

// compared is a load with what became of it.
type compared struct {
	load
	got, free, bound outcome
	best             found
	most             int
}

func (c *compared) row() string {
	share := func(of outcome) float64 { return float64(c.got.good) / float64(max(1, of.good)) }
	answered := max(1, c.got.good+c.got.late)
	return fmt.Sprintf("| %s | %d | %d | %v | %.2f %% | %v | %d | %.2f | %v | %.2f | %.2f |\n", c.name, c.items(), c.got.good,
		c.got.p99.Round(time.Millisecond), 100*float64(c.got.late)/float64(answered), c.best.bound, c.bound.good, share(c.bound), c.best.free,
		share(c.free), float64(c.most)/float64(max(1, c.bound.good)))
}

// The promise of an objective: at least 95 % of the answers in time that the best fixed
// setting of Triton's gives, queue policy included, which knows the whole load beforehand;
// at overload twice those of the best one whose queue has no bound, as is its default.
func TestObjectiveAgainstFixedSettings(t *testing.T) {
	all := loads(t)
	settings := map[string]found{}
	if *report == "" {
		settings = readFound(t)
	}
	rows := make([]compared, len(all))
	var work sync.WaitGroup
	places := make(chan struct{}, 2)
	for i, l := range all {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			rows[i] = against(l, settings)
		})
	}
	work.Wait()
	var table, kept strings.Builder
	table.WriteString("| load | items | in time | p99 | late | Triton's best fixed setting | in time | ratio | " +
		"its best without a bound on the queue | ratio | ceiling |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range rows {
		c := &rows[i]
		table.WriteString(c.row())
		fmt.Fprintf(&kept, "%s: %s %s\n", c.name, c.best.free.numbers(), c.best.bound.numbers())
		if ratio := float64(c.got.good) / float64(c.bound.good); ratio < 0.95 {
			t.Errorf("%s: %d in time, %.2f of the best fixed setting (%v: %d)", c.name, c.got.good, ratio, c.best.bound, c.bound.good)
		}
		if c.overload && c.got.good < 2*c.free.good {
			t.Errorf("%s: %d in time; the best setting without a bound on the queue: %d (%v)", c.name, c.got.good, c.free.good, c.best.free)
		}
		if !c.surprises && c.got.p99 > c.limit+c.limit/20 {
			t.Errorf("%s: p99 %v of an objective of %v", c.name, c.got.p99, c.limit)
		}
	}
	t.Log("\n" + table.String())
	if *report == "" {
		return
	}
	for file, text := range map[string]string{*report: preface + table.String(), bestFixed: kept.String()} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func against(l load, settings map[string]found) compared {
	l.instances = max(1, l.instances)
	if l.limit == 0 {
		l.limit = 100 * time.Millisecond
	}
	c := compared{load: l, most: ceiling(&l)}
	b := simulatedBatcher(&l, &modelconfig.DynamicBatching{}, 64)
	b.aimFor(l.limit)
	c.got = play(&l, b)
	if best, ok := settings[l.name]; ok {
		c.best, c.free, c.bound = best, playTriton(&l, best.free), playTriton(&l, best.bound)
		return c
	}
	c.best.free, c.free = search(&l, false)
	if c.best.bound, c.bound = search(&l, true); c.free.good > c.bound.good {
		c.best.bound, c.bound = c.best.free, c.free
	}
	return c
}

const preface = "# Adaptive batching against the best fixed settings\n\n" +
	"Written by `make bench-adaptive`. Simulated time; Neso's own batcher, and Triton's rules " +
	"(internal/scheduler/dynamic/triton_test.go): sizes,\npreferred sizes, delay, and of the queue policy the bound, the timeout and " +
	"what happens then. The best setting was found by search\nover all of these for the very load. Batches take a tenth more or less " +
	"than said, at random. What the loads are:\ninternal/scheduler/dynamic/simulate_test.go. " +
	"[Adaptive batching](../docs/models/adaptive-batching.md).\n\n" +
	"A ratio is the items that the objective answered in time by those of the setting. The ceiling is more than any scheduler could " +
	"answer, had it\nknown the load beforehand (an instance that executes the best batch all the time), by what the best setting " +
	"answers: nothing can be\ntwice as good as a setting whose ceiling is below 2.\n\n"
