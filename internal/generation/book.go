// Package generation counts what language models write: how long the first token
// takes, and each that follows, how many come and go, and how many texts are being
// written. A request to a model that writes texts tells it, by whatever route it
// came; requests to others pay nothing for it. Open book.go first, then text.go.
package generation

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mostModels bounds the book, and with it the series of the metrics. Texts of
// versions beyond are served as others are, and counted together.
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
	beyond atomic.Uint64
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

// Beyond is how many texts were of versions for which the book had no room.
func (b *Book) Beyond() uint64 { return b.beyond.Load() }
