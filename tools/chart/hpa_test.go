package chart

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// policy is one of spec.behavior: how much may change in a period.
type policy struct {
	kind          string
	value, period int
}

// direction is spec.behavior.scaleUp or scaleDown.
type direction struct {
	window   int // of stabilisation, in seconds
	policies []policy
}

// autoscaler decides as Kubernetes' horizontal autoscaler does each 15 seconds: the
// replicas that the metric asks for, with the tolerance of a tenth, then what was asked
// for within the windows, then the policies, each over what has changed in its period.
type autoscaler struct {
	min, max, current int
	target            float64
	up, down          direction
	asked, changed    []event
}

type event struct{ at, replicas int }

const (
	interval  = 15 // seconds between decisions
	tolerance = 0.1
)

// step returns the replicas from now on. total is the metric of all pods together.
func (a *autoscaler) step(now int, total float64) int {
	desired := a.current
	if ratio := total / float64(a.current) / a.target; math.Abs(ratio-1) > tolerance {
		desired = int(math.Ceil(ratio * float64(a.current)))
	}
	a.asked = append(a.asked, event{now, desired})
	lowest, highest := desired, desired
	for _, e := range a.asked {
		if e.at > now-a.up.window {
			lowest = min(lowest, e.replicas)
		}
		if e.at > now-a.down.window {
			highest = max(highest, e.replicas)
		}
	}
	wanted := a.current
	if wanted < lowest {
		wanted = lowest
	}
	if wanted > highest {
		wanted = highest
	}
	switch {
	case wanted > a.current:
		wanted = min(wanted, max(a.current, a.limit(now, a.up, 1)), a.max)
	case wanted < a.current:
		wanted = max(wanted, min(a.current, a.limit(now, a.down, -1)), a.min)
	}
	wanted = min(max(wanted, a.min), a.max)
	if wanted != a.current {
		a.changed = append(a.changed, event{now, wanted - a.current})
		a.current = wanted
	}
	return wanted
}

// limit is how far the policies let the replicas go: the one that allows most counts.
func (a *autoscaler) limit(now int, d direction, sign int) int {
	furthest := a.current
	for _, p := range d.policies {
		start := a.current
		for _, e := range a.changed {
			if e.at > now-p.period {
				start -= e.replicas
			}
		}
		reach := start + sign*p.value
		if p.kind == "Percent" {
			part := float64(start) * (1 + float64(sign*p.value)/100)
			if reach = int(part); sign > 0 {
				reach = int(math.Ceil(part))
			}
		}
		if sign > 0 {
			furthest = max(furthest, reach)
		} else {
			furthest = min(furthest, reach)
		}
	}
	return furthest
}

// rendered is an autoscaler with the behaviour that the chart renders.
func rendered(t *testing.T) *autoscaler {
	t.Helper()
	text, err := render("hpa: {enabled: true, minReplicas: 1, maxReplicas: 10, podMetrics: {neso_requests_running: 4}}", rendering{})
	if err != nil {
		t.Fatal(err)
	}
	spec := at(t, find(t, text, "HorizontalPodAutoscaler"), "spec")
	read := func(name string) direction {
		d := direction{window: at(t, spec, "behavior", name, "stabilizationWindowSeconds").(int)}
		for _, p := range at(t, spec, "behavior", name, "policies").([]any) {
			d.policies = append(d.policies, policy{at(t, p, "type").(string), at(t, p, "value").(int), at(t, p, "periodSeconds").(int)})
		}
		return d
	}
	return &autoscaler{
		min: at(t, spec, "minReplicas").(int), max: at(t, spec, "maxReplicas").(int), current: 1, target: 4,
		up: read("scaleUp"), down: read("scaleDown"),
	}
}

// recorded is what a server said under load: lines of seconds and
// nv_inference_request_duration_us, from which rate() makes the metric. A second of the
// recording stands for an interval of the autoscaler's.
func recorded(t *testing.T) []float64 {
	t.Helper()
	file, err := os.Open("testdata/load.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var at, sums, loads []float64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		seconds, sum, ok := strings.Cut(lines.Text(), ",")
		x, err := strconv.ParseFloat(seconds, 64)
		y, err2 := strconv.ParseFloat(sum, 64)
		if !ok || err != nil || err2 != nil {
			continue // the heading
		}
		at, sums = append(at, x), append(sums, y)
	}
	const window = 4 // samples, a minute at one each interval
	for i := window; i < len(at); i++ {
		loads = append(loads, (sums[i]-sums[i-window])/(at[i]-at[i-window])/1e6)
	}
	if len(loads) < 80 {
		t.Fatalf("expected 80 samples or more, got %d", len(loads))
	}
	return loads
}

// turns counts how often the replicas turn from more to fewer or back.
func turns(replicas []int) (n int) {
	last := 0
	for i := 1; i < len(replicas); i++ {
		if d := replicas[i] - replicas[i-1]; d != 0 {
			if d*last < 0 {
				n++
			}
			last = d
		}
	}
	return n
}

func run(a *autoscaler, loads []float64) []int {
	var replicas []int
	for i, load := range loads {
		replicas = append(replicas, a.step(i*interval, load))
	}
	return replicas
}

// The load that was recorded rises, jitters on a plateau, falls into a gap that is
// shorter than the window, comes back, and ends: the replicas go up once and down once.
func TestNoFlapping(t *testing.T) {
	loads := recorded(t)
	loads = append(loads, make([]float64, 80)...) // nobody comes: down to the least
	replicas := run(rendered(t), loads)
	t.Log(replicas)
	if n := turns(replicas); n != 1 {
		t.Errorf("expected that the replicas turn once, they turn %d times: %v", n, replicas)
	}
	peak := 0.0
	for _, l := range loads {
		peak = max(peak, l)
	}
	most := 0
	for _, r := range replicas {
		most = max(most, r)
	}
	if want := min(10, int(math.Ceil(peak/4))); most < want-1 || most > want {
		t.Errorf("expected about %d replicas for %.1f requests in hand, got %d", want, peak, most)
	}
	if last := replicas[len(replicas)-1]; last != 1 {
		t.Errorf("expected one replica in the end, got %d", last)
	}
	// The same load without the window flaps: what the test sees is the window's doing.
	eager := rendered(t)
	eager.down = direction{policies: []policy{{"Percent", 100, 15}}}
	if n := turns(run(eager, loads)); n < 3 {
		t.Errorf("expected that an autoscaler without a window flaps on this load, it turns %d times", n)
	}
}

// Within a tenth of the target nothing changes, and policies bound what does.
func TestAutoscalerRules(t *testing.T) {
	up := direction{policies: []policy{{"Percent", 100, 15}, {"Pods", 4, 15}}}
	down := direction{window: 300, policies: []policy{{"Percent", 25, 60}, {"Pods", 1, 60}}}
	for _, c := range []struct {
		current int
		load    float64
		want    int
	}{
		{5, 20, 5}, {5, 21.9, 5}, {5, 18.1, 5}, {5, 22.1, 6}, {1, 100, 5}, {8, 400, 16}, {2, 9, 3},
	} {
		a := &autoscaler{min: 1, max: 20, current: c.current, target: 4, up: up, down: down}
		if got := a.step(1000, c.load); got != c.want {
			t.Errorf("%d replicas, %v in hand: expected %d, got %d", c.current, c.load, c.want, got)
		}
	}
	a := &autoscaler{min: 1, max: 20, current: 8, target: 4, up: up, down: down}
	var path []string
	for now := 0; now <= 420; now += 60 {
		path = append(path, fmt.Sprint(a.step(now, 0)))
	}
	if got := strings.Join(path, " "); got != "6 4 3 2 1 1 1 1" {
		t.Errorf("expected a quarter a minute at most, got %s", got)
	}
}
