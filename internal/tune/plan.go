package tune

import (
	"time"

	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/search"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// Plan is what is to be done.
type Plan struct {
	Studies   []Study
	Directory string // of the checkpoint and the reports
	CSV       string // directory of the CSV files
	Files     Files
	Search    Search
	Server    []string // options of `neso serve`
	Restart   bool     // forget what was measured
	Apply     bool
	Quiet     bool
	// Rounds is how often the best are measured once more, Top how many of them.
	Rounds, Top int
	LoadTimeout time.Duration // until a server is ready
	Timeout     time.Duration // of one load
	Interval    time.Duration // of a window
	Stability   float64       // percent that windows may differ by
	Windows     int           // at most
	Notes       []string      // said once
}

// Files are the names of the CSV files, and their columns.
type Files struct {
	Inference, GPU, Server string
	Fields                 []string
}

// Search is how configurations are chosen.
type Search struct {
	Mode    string // brute, quick or halving
	Halving search.Halving
}

// Study is one search: models that share the servers.
type Study struct {
	Repositories []string
	Models       []ModelPlan
	// Composing are models that the others call (BLS) and that are tuned with them.
	Composing []string
	Space     knobs.Space
	Together  bool
	// Server and Env are options and variables of the servers, beside the plan's.
	Server, Env []string
}

// ModelPlan is a model that requests are sent to.
type ModelPlan struct {
	Name string
	Aim  trial.Aim
	// Perf are options of `neso perf`.
	Perf  []string
	Loads Loads
	// Space is that of this model, in place of the study's; nil for none.
	Space *knobs.Space
}

// Loads are what each server is put under.
type Loads struct {
	Concurrency []int
	Rate        []float64
	Batch       []int
	// Sweep doubles the concurrency from Low to High, as long as that helps.
	Sweep     bool
	Low, High int
}
