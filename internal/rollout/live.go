package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxSeries bounds the counts of one model: labels and versions come and go.
const maxSeries = 1000

// Live is what goes on under the rules of one model: it counts, for as long as the model
// has rules, and watches the version that may be stepped back from.
type Live struct {
	mu        sync.Mutex
	requests  map[Served]int64
	mirrored  map[int64]*[Outcomes]int64
	stepBacks map[int64]int64
	last      string // the last difference
	monitor   *Monitor
	plan      *Plan // that the monitor belongs to

	// Held counts the copies that there are: made, waiting or running.
	Held atomic.Int64
}

// Served is a kind of request, as metrics tell them apart.
type Served struct {
	Version int64
	Label   string
	Reason  Reason
}

// NewLive returns one that has counted nothing.
func NewLive() *Live {
	return &Live{requests: map[Served]int64{}, mirrored: map[int64]*[Outcomes]int64{}, stepBacks: map[int64]int64{}}
}

// Apply has a plan watched from now on. What was seen under another one with other
// bounds, versions or weights is forgotten.
func (l *Live) Apply(p *Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.plan
	l.plan = p
	switch {
	case p.Watched == 0 || p.Stepped != nil:
		l.monitor = nil
	case l.monitor == nil || old.Watched != p.Watched || old.Beside != p.Beside || *old.Rules.StepBack != *p.Rules.StepBack:
		l.monitor = NewMonitor(*p.Rules.StepBack)
	}
}

// Serve counts a request that goes to a version.
func (l *Live) Serve(s Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.requests[s]; !ok && len(l.requests) >= maxSeries {
		return
	}
	l.requests[s]++
}

// Ended takes the end of a request under a plan. It returns the plan that is to be
// stepped back from, and why; else nil. The same plan is told of once.
func (l *Live) Ended(now, version int64, failed bool, latency time.Duration) (*Plan, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.monitor == nil || version != l.plan.Watched && version != l.plan.Beside {
		return nil, ""
	}
	why := l.monitor.Observe(now, version == l.plan.Watched, failed, latency)
	if why == "" {
		return nil, ""
	}
	l.monitor = nil
	return l.plan, why
}

// Mirrored counts what has become of a copy that was for a version.
func (l *Live) Mirrored(version int64, o Outcome, difference string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.mirrored[version]
	if counts == nil {
		if len(l.mirrored) >= maxSeries {
			return
		}
		counts = new([Outcomes]int64)
		l.mirrored[version] = counts
	}
	counts[o]++
	if difference != "" {
		l.last = difference
	}
}

// SteppedBack counts a step back from a version.
func (l *Live) SteppedBack(version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.stepBacks[version]; ok || len(l.stepBacks) < maxSeries {
		l.stepBacks[version]++
	}
}

// Numbers are what a Live has counted.
type Numbers struct {
	Requests  []Count
	Mirrored  map[int64][Outcomes]int64
	StepBacks map[int64]int64
	// Difference is the last one that was found, "" for none.
	Difference string
	// Window is what the watched version has done in the window.
	Window struct{ Requests, Failed int64 }
}

// Count is how many requests of a kind there were.
type Count struct {
	Served
	Count int64
}

// Numbers returns the counts as they are.
func (l *Live) Numbers(now int64) Numbers {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := Numbers{Mirrored: map[int64][Outcomes]int64{}, StepBacks: maps.Clone(l.stepBacks), Difference: l.last}
	for s, count := range l.requests {
		n.Requests = append(n.Requests, Count{s, count})
	}
	slices.SortFunc(n.Requests, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Label, b.Label))
	})
	for v, counts := range l.mirrored {
		n.Mirrored[v] = *counts
	}
	if l.monitor != nil {
		n.Window.Requests, n.Window.Failed = l.monitor.Numbers(now)
	}
	return n
}

// Route is why a request goes to its version. It belongs to the request.
type Route struct {
	Reason Reason
	Label  string
	// Plan is the one that it was chosen by.
	Plan *Plan
	Live *Live
}

// Ask is what a client says of the version that it wants.
type Ask struct {
	// Version is a number, -1 where the client names none.
	Version int64
	// Label stands in place of a number where it is not empty.
	Label string
	// Fields are the headers or the metadata of the request; nil for none.
	Fields Fields
	// Chosen says that Version was chosen before, for Reason, where the client named none.
	Chosen bool
	Reason Reason
}

// Fields give the value of a header or a metadata key, by its name in lower case; ""
// where there is none.
type Fields interface{ Field(name string) string }

// NoVersion is the number of no version, for a label that there is not.
const NoVersion = -2

// SplitName takes a name of the form MODEL@VERSION or MODEL@LABEL apart.
func SplitName(name string) (model string, ask Ask, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at <= 0 {
		return name, ask, false
	}
	version := name[at+1:]
	if n, err := strconv.ParseInt(version, 10, 64); err == nil && n > 0 {
		return name[:at], Ask{Version: n}, true
	}
	return name[:at], Ask{Version: -1, Label: version}, IsLabel(version)
}
