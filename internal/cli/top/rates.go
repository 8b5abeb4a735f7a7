package top

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metrics that Rates reads.
const (
	Pending = "nv_inference_pending_request_count"
	Buckets = "neso_request_duration_seconds_bucket"
	Workers = "neso_worker_cpu_seconds_total"
)

// Row says how one version did between two looks. Where nothing is known, or nothing
// took place, a number is NaN.
type Row struct {
	Model, Version, State, Reason string
	// Requests, Inferences and Failures are per second.
	Requests, Inferences, Failures float64
	// Batch is the mean batch size of the executions.
	Batch float64
	// Latency, Queue and Compute are means of the requests that succeeded, in ms.
	Latency, Queue, Compute float64
	// P99 is that of all requests, in ms: the upper bound of the histogram's bucket.
	P99 float64
	// Busy is how many executions ran at a time.
	Busy float64
	// Pending is how many requests wait now.
	Pending float64
	// CPU is how many processors the workers have kept busy.
	CPU float64
	// Memory is what the instances have now, in bytes.
	Memory float64
}

// Rates compares two looks. Versions that were loaded anew between them begin at
// nothing. Rows are in the order of the index.
func Rates(before, now Look) []Row {
	seconds := now.At.Sub(before.At).Seconds()
	was := map[[2]string]*Statistics{}
	for i := range before.Models {
		was[before.Models[i].key()] = &before.Models[i]
	}
	is := map[[2]string]*Statistics{}
	for i := range now.Models {
		is[now.Models[i].key()] = &now.Models[i]
	}
	histograms := slowest(before.Series, now.Series)
	var rows []Row
	for _, e := range now.Index {
		r := Row{Model: e.Name, Version: e.Version, State: e.State, Reason: e.Reason}
		key := [2]string{e.Name, e.Version}
		if s := is[key]; s != nil && seconds > 0 {
			old := was[key]
			if old == nil || old.Requests["success"].Count > s.Requests["success"].Count {
				old = &Statistics{}
			}
			r.fill(old, s, seconds)
		} else {
			r.nothing()
		}
		r.Pending, r.P99 = of(now.Series, Pending, key), math.NaN()
		r.CPU = increase(of(before.Series, Workers, key), of(now.Series, Workers, key)) / seconds
		if p, ok := histograms[key]; ok {
			r.P99 = p
		}
		rows = append(rows, r)
	}
	return rows
}

func (s *Statistics) key() [2]string { return [2]string{s.Name, s.Version} }

func (r *Row) nothing() {
	nan := math.NaN()
	r.Requests, r.Inferences, r.Failures, r.Batch, r.Busy, r.Memory = nan, nan, nan, nan, nan, nan
	r.Latency, r.Queue, r.Compute = nan, nan, nan
}

func (r *Row) fill(old, s *Statistics, seconds float64) {
	change := func(name string) Duration {
		a, b := old.Requests[name], s.Requests[name]
		return Duration{b.Count - a.Count, b.Nanos - a.Nanos}
	}
	// NaN for the mean of nothing.
	mean := func(d Duration) float64 { return d.Nanos / d.Count / 1e6 }
	success, fail := change("success"), change("fail")
	r.Requests, r.Failures = (success.Count+fail.Count)/seconds, fail.Count/seconds
	r.Inferences = (s.Inferences - old.Inferences) / seconds
	r.Batch = (s.Inferences - old.Inferences) / (s.Executions - old.Executions)
	r.Latency, r.Queue, r.Compute = mean(success), mean(change("queue")), mean(change("compute_infer"))
	r.Busy = (s.executing() - old.executing()) / 1e9 / seconds
	if r.Memory = s.memory(); r.Memory == 0 {
		r.Memory = math.NaN()
	}
}

// of is the value of a version's series; NaN where there is none.
func of(all []Series, name string, key [2]string) float64 {
	for _, s := range all {
		if s.Name == name && s.Labels["model"] == key[0] && s.Labels["version"] == key[1] {
			return s.Value
		}
	}
	return math.NaN()
}

// increase is what a counter has gained, which is all of it where it began anew.
func increase(before, now float64) float64 {
	if before > now {
		return now
	}
	return now - before
}

// slowest is the 99th percentile of what was added to each version's histogram, in ms.
func slowest(before, now []Series) map[[2]string]float64 {
	type bucket struct{ upTo, count float64 }
	old := map[[3]string]float64{}
	of := func(s *Series) [3]string { return [3]string{s.Labels["model"], s.Labels["version"], s.Labels["le"]} }
	for i := range before {
		if before[i].Name == Buckets {
			old[of(&before[i])] += before[i].Value
		}
	}
	added := map[[2]string][]bucket{}
	for i := range now {
		if s := &now[i]; s.Name == Buckets {
			upTo, err := strconv.ParseFloat(s.Labels["le"], 64)
			if err != nil {
				continue
			}
			k := of(s)
			added[[2]string(k[:2])] = append(added[[2]string(k[:2])], bucket{upTo, s.Value - old[k]})
		}
	}
	p99 := map[[2]string]float64{}
	for key, buckets := range added {
		slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.upTo, b.upTo) })
		if total := buckets[len(buckets)-1].count; total > 0 {
			for _, b := range buckets {
				if b.count >= 0.99*total {
					p99[key] = b.upTo * 1000
					break
				}
			}
		}
	}
	return p99
}

// Orders are what rows can be sorted by.
var Orders = []string{"requests", "failures", "latency", "p99", "queue", "busy", "pending", "cpu", "memory", "model"}

// Sort sorts rows by one of Orders: the largest number first, what is not known last;
// models by name.
func Sort(rows []Row, by string) {
	number := func(r *Row) float64 {
		switch by {
		case "requests":
			return r.Requests
		case "failures":
			return r.Failures
		case "latency":
			return r.Latency
		case "p99":
			return r.P99
		case "queue":
			return r.Queue
		case "busy":
			return r.Busy
		case "pending":
			return r.Pending
		case "cpu":
			return r.CPU
		case "memory":
			return r.Memory
		default:
			return 0
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		// Compare puts NaN before all numbers, and the larger one comes first.
		return cmp.Or(cmp.Compare(number(&b), number(&a)), strings.Compare(a.Model, b.Model), strings.Compare(a.Version, b.Version))
	})
}

// Header is what stands above the table.
type Header struct {
	URL      string
	At       time.Time
	Interval time.Duration
	// Machine is a line of the server and the machine that it runs on, see Machine;
	// empty for none.
	Machine string
}
