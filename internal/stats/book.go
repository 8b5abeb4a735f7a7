package stats

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxClosed bounds the pages of versions that are not loaded: of more than that
// the one that was closed longest ago goes, and would begin at zero again.
const maxClosed = 1000

// Book keeps the numbers of all versions for as long as the server lives. A
// version that is loaded anew counts on where its former self stops, which
// counts too while it drains; one that is unloaded keeps its page. Reading adds
// up: counting costs nothing.
type Book struct {
	newObserver func() Observer

	mu    sync.Mutex
	pages map[title]*page
	clock uint64 // grows with each page that is made or closed
}

// Title says whose numbers a page has. Tags become labels in the metrics, hence
// a version with others is another one.
type Title struct {
	Name, Namespace string
	Version         int64
	Tags            map[string]string
}

type title struct {
	name, namespace, tags string
	version               int64
}

func (t *Title) key() title {
	var tags strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t.Tags)) {
		tags.WriteString(k + "\x00" + t.Tags[k] + "\x00")
	}
	return title{t.Name, t.Namespace, tags.String(), t.Version}
}

// Loaded is a version that is loaded, or drains.
type Loaded struct {
	Numbers  *Version
	Cached   bool
	LoadTime time.Duration
	// Health returns how many of its instances are stuck, and how often one has
	// hung.
	Health func() (stuck int, hangs int64)
	// WorkerCPU returns what its workers have used of the processors; ok if it has
	// ever had one. It is called without a lock, and may read files.
	WorkerCPU func() (used time.Duration, ok bool)
}

// workerCPU is the sum of what those of some versions have used.
type workerCPU struct {
	sum time.Duration
	any bool
}

func (u *workerCPU) add(v *Loaded) {
	if v.WorkerCPU == nil {
		return
	}
	used, ok := v.WorkerCPU()
	u.sum, u.any = u.sum+used, u.any || ok
}

type page struct {
	title    Title
	observer Observer
	live     []Loaded
	last     Loaded   // opened last
	gone     Snapshot // of those that are closed
	hangs    int64    // of those
	used     workerCPU
	told     time.Duration // the most that was ever told of WorkerCPU
	opened   bool          // it has ever had one
	idle     uint64        // since when it has none, by the clock
}

// Page is all that was ever counted for a title.
type Page struct {
	Title
	Numbers  Snapshot
	Observer Observer
	Cached   bool
	LoadTime time.Duration // of the last load
	Stuck    int
	Hangs    int64
	// WorkerCPU is what workers have used of the processors, Workers whether there has
	// been one.
	WorkerCPU time.Duration
	Workers   bool
	// Failed says that no load of it has ever come to its end.
	Failed bool
}

// NewBook returns an empty book. newObserver, which may be nil, makes what sees
// the successful requests of a title.
func NewBook(newObserver func() Observer) *Book {
	return &Book{newObserver: newObserver, pages: map[title]*page{}}
}

// Observer returns what sees the requests of a title, or nil. The title has its
// page from here on, also if the load that asks fails.
func (b *Book) Observer(t Title) Observer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pageLocked(t).observer
}

func (b *Book) pageLocked(t Title) *page {
	k := t.key()
	p := b.pages[k]
	if p == nil {
		b.boundLocked()
		b.clock++
		p = &page{title: t, idle: b.clock}
		if b.newObserver != nil {
			p.observer = b.newObserver()
		}
		b.pages[k] = p
	}
	return p
}

// boundLocked makes room for a page.
func (b *Book) boundLocked() {
	idle := 0
	var oldest *page
	for _, p := range b.pages {
		if len(p.live) > 0 {
			continue
		}
		if idle++; oldest == nil || p.idle < oldest.idle {
			oldest = p
		}
	}
	if idle >= maxClosed {
		delete(b.pages, oldest.title.key())
	}
}

// Open adds a version that is loaded.
func (b *Book) Open(t Title, v Loaded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pageLocked(t)
	p.live, p.last, p.opened = append(p.live, v), v, true
}

// Close keeps the numbers of a version that will not count any more.
func (b *Book) Close(t Title, v *Version) {
	var used workerCPU
	if l := b.loaded(t, v); l != nil {
		used.add(l)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[t.key()]
	if p == nil {
		return
	}
	i := slices.IndexFunc(p.live, func(l Loaded) bool { return l.Numbers == v })
	if i < 0 {
		return
	}
	s := v.Totals()
	s.Pending = 0
	p.gone.Add(&s)
	if p.live[i].Health != nil {
		_, hangs := p.live[i].Health()
		p.hangs += hangs
	}
	p.used.sum, p.used.any = p.used.sum+used.sum, p.used.any || used.any
	p.live = slices.Delete(p.live, i, i+1)
	if p.last.Numbers == v {
		p.last.Numbers, p.last.Health, p.last.WorkerCPU = nil, nil, nil // nothing of the version is kept
	}
	if len(p.live) == 0 {
		b.clock++
		p.idle = b.clock
	}
}

// loaded returns a version that is not closed yet, or nil.
func (b *Book) loaded(t Title, v *Version) *Loaded {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pages[t.key()]; p != nil {
		for i := range p.live {
			if l := p.live[i]; l.Numbers == v {
				return &l
			}
		}
	}
	return nil
}

// Read returns all pages, ordered by their titles.
func (b *Book) Read() []Page {
	all, pages, live := b.read()
	for i := range live {
		u := workerCPU{all[i].WorkerCPU, all[i].Workers}
		for j := range live[i] {
			u.add(&live[i][j])
		}
		all[i].WorkerCPU, all[i].Workers = u.sum, u.any
	}
	b.mu.Lock()
	for i, p := range pages {
		// A version that was closed meanwhile has left a little less than it said here.
		p.told = max(p.told, all[i].WorkerCPU)
		all[i].WorkerCPU = p.told
	}
	b.mu.Unlock()
	slices.SortFunc(all, comparePages)
	return all
}

// read returns all pages, and of each the versions of which WorkerCPU is still to be
// asked.
func (b *Book) read() (all []Page, pages []*page, live [][]Loaded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = make([]Page, 0, len(b.pages))
	for _, p := range b.pages {
		r := Page{
			Title: p.title, Observer: p.observer, Cached: p.last.Cached, LoadTime: p.last.LoadTime, Hangs: p.hangs, Failed: !p.opened,
			WorkerCPU: p.used.sum, Workers: p.used.any,
		}
		r.Numbers.Add(&p.gone)
		for _, l := range p.live {
			s := l.Numbers.Totals()
			r.Numbers.Add(&s)
			if l.Health != nil {
				stuck, hangs := l.Health()
				r.Stuck, r.Hangs = r.Stuck+stuck, r.Hangs+hangs
			}
		}
		all, pages, live = append(all, r), append(pages, p), append(live, slices.Clone(p.live))
	}
	return all, pages, live
}

func comparePages(x, y Page) int {
	a, b := x.key(), y.key()
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.namespace, b.namespace), cmp.Compare(a.version, b.version),
		strings.Compare(a.tags, b.tags))
}

// Add adds what another version has counted, batch sizes and responses apart.
func (s *Snapshot) Add(o *Snapshot) {
	s.LastInference = max(s.LastInference, o.LastInference)
	s.InferenceCount += o.InferenceCount
	s.ExecutionCount += o.ExecutionCount
	s.Pending += o.Pending
	s.Warmups += o.Warmups
	s.Restarts += o.Restarts
	s.Coalesced += o.Coalesced
	for _, d := range [...][2]*Duration{
		{&s.Success, &o.Success},
		{&s.Fail, &o.Fail},
		{&s.Queue, &o.Queue},
		{&s.ComputeInput, &o.ComputeInput},
		{&s.ComputeInfer, &o.ComputeInfer},
		{&s.ComputeOutput, &o.ComputeOutput},
		{&s.CacheHit, &o.CacheHit},
		{&s.CacheMiss, &o.CacheMiss},
	} {
		d[0].Count += d[1].Count
		d[0].Nanos += d[1].Nanos
	}
	s.FailuresByCause = sum(s.FailuresByCause, o.FailuresByCause)
	s.BatchesClosed = sum(s.BatchesClosed, o.BatchesClosed)
	s.OddOutputs = sum(s.OddOutputs, o.OddOutputs)
	for _, h := range [...][2]*HistogramSnapshot{
		{&s.RequestTime, &o.RequestTime},
		{&s.QueueTime, &o.QueueTime},
		{&s.InputTime, &o.InputTime},
		{&s.InferTime, &o.InferTime},
		{&s.OutputTime, &o.OutputTime},
		{&s.FirstResponse, &o.FirstResponse},
		{&s.BatchSize, &o.BatchSize},
	} {
		h[0].add(h[1])
	}
}

func sum[K comparable](a, b map[K]uint64) map[K]uint64 {
	if a == nil {
		return maps.Clone(b)
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// add counts the values of another histogram. One of other buckets takes the
// place of this one: the configuration has changed, and what was counted by the
// old ones fits nowhere.
func (s *HistogramSnapshot) add(o *HistogramSnapshot) {
	if len(o.Counts) == 0 {
		return
	}
	if !slices.Equal(s.Bounds, o.Bounds) || len(s.Counts) != len(o.Counts) {
		*s = HistogramSnapshot{Bounds: o.Bounds, Counts: slices.Clone(o.Counts), Sum: o.Sum}
		return
	}
	for i, n := range o.Counts {
		s.Counts[i] += n
	}
	s.Sum += o.Sum
}
