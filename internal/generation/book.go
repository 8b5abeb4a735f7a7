// Package generation counts what language models write: how long the first token
// takes, and each that follows, how many come and go, and how many texts are being
// written. The routes that know of texts tell it; nothing else pays for it.
package generation

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mostModels bounds the book, and with it the series of the metrics. What comes
// beyond is not counted.
const mostModels = 1024

// Bounds of the histograms, in seconds.
var (
	FirstBounds = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
	}
	BetweenBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 20, 40}
)

// Book has the counts of all models. It is safe for concurrent use; its zero value is
// empty.
type Book struct {
	mu     sync.Mutex
	models map[key]*model
}

type key struct {
	name    string
	version int64
}

type model struct {
	waiting, running atomic.Int64
	prompt, tokens   atomic.Uint64
	mu               sync.Mutex
	first, between   Histogram
}

// Histogram counts seconds; Counts are not cumulative, and one more than the bounds.
type Histogram struct {
	Counts []uint64
	Sum    float64
}

func (h *Histogram) add(bounds []float64, d time.Duration) {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(bounds)+1)
	}
	at, _ := slices.BinarySearch(bounds, d.Seconds())
	h.Counts[at]++
	h.Sum += d.Seconds()
}

// Numbers are the counts of one version of a model.
type Numbers struct {
	Model   string
	Version int64
	// Waiting are texts of which nothing has come yet, Running those that are being
	// written.
	Waiting, Running int64
	// Prompt and Tokens are those that the model has told of.
	Prompt, Tokens uint64
	// First is the time to the first piece, Between that from one to the next.
	First, Between Histogram
}

// Add adds the counts of another version.
func (n *Numbers) Add(other *Numbers) {
	n.Waiting, n.Running = n.Waiting+other.Waiting, n.Running+other.Running
	n.Prompt, n.Tokens = n.Prompt+other.Prompt, n.Tokens+other.Tokens
	n.First.sum(other.First)
	n.Between.sum(other.Between)
}

func (h *Histogram) sum(other Histogram) {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(other.Counts))
	}
	for i := range min(len(h.Counts), len(other.Counts)) {
		h.Counts[i] += other.Counts[i]
	}
	h.Sum += other.Sum
}

// Text is one that is being written. It belongs to one goroutine. A nil Text counts
// nothing.
type Text struct {
	m       *model
	begin   time.Time
	last    time.Time // of a piece; zero before the first
	prompt  int64
	stopped bool
}

// Begin counts a text that waits, of a request that came at the given time.
func (b *Book) Begin(name string, version int64, came time.Time) *Text {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key{name, version}]
	if m == nil {
		if len(b.models) >= mostModels {
			return nil
		}
		if b.models == nil {
			b.models = map[key]*model{}
		}
		m = &model{}
		b.models[key{name, version}] = m
	}
	m.waiting.Add(1)
	return &Text{m: m, begin: came}
}

// Piece counts a piece that has come, with so many tokens; prompt is how many the
// prompt has. Less than none is not known.
func (t *Text) Piece(now time.Time, written bool, prompt, tokens int64) {
	if t == nil {
		return
	}
	if prompt > t.prompt { // models tell it with each piece
		t.m.prompt.Add(uint64(prompt - t.prompt))
		t.prompt = prompt
	}
	if tokens > 0 {
		t.m.tokens.Add(uint64(tokens))
	}
	if !written {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.last.IsZero() {
		t.m.waiting.Add(-1)
		t.m.running.Add(1)
		t.m.first.add(FirstBounds, now.Sub(t.begin))
	} else {
		t.m.between.add(BetweenBounds, now.Sub(t.last))
	}
	t.last = now
}

// End ends the text, however it ends. It may be called twice.
func (t *Text) End() {
	if t == nil || t.stopped {
		return
	}
	t.stopped = true
	if t.last.IsZero() {
		t.m.waiting.Add(-1)
	} else {
		t.m.running.Add(-1)
	}
}

// Snapshot returns the counts, by model and version.
func (b *Book) Snapshot() []Numbers {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Numbers, 0, len(b.models))
	for k, m := range b.models {
		n := Numbers{
			Model: k.name, Version: k.version, Waiting: m.waiting.Load(), Running: m.running.Load(), Prompt: m.prompt.Load(),
			Tokens: m.tokens.Load(),
		}
		m.mu.Lock()
		n.First = Histogram{slices.Clone(m.first.Counts), m.first.Sum}
		n.Between = Histogram{slices.Clone(m.between.Counts), m.between.Sum}
		m.mu.Unlock()
		all = append(all, n)
	}
	slices.SortFunc(all, func(x, y Numbers) int {
		return cmp.Or(cmp.Compare(x.Model, y.Model), cmp.Compare(x.Version, y.Version))
	})
	return all
}
