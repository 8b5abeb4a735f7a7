package backend

import (
	"context"
	"log/slog"

	"github.com/nesoserve/neso/tensor"
)

// Host is what a backend may ask of the server. Its methods may be called
// concurrently and from Execute.
type Host interface {
	// Allocator gives ordinary, pooled memory for outputs.
	Allocator() tensor.Allocator
	// Logger writes to the server's log.
	Logger() *slog.Logger
	// Infer sends a request to a model of this server. req needs ModelName,
	// ModelVersion (-1 for the latest), Inputs, Ctx and Responder; the inputs are
	// borrowed until the final response. An error is a refusal: then the
	// Responder is never called. A Responder that is a Pinner is told the version.
	Infer(req *Request) error
	// Load loads or reloads a model; config (JSON) and files may be empty.
	Load(ctx context.Context, model string, config string, files map[string][]byte) error
	// Unload unloads a model, and with dependents also the models only it uses.
	Unload(ctx context.Context, model string, dependents bool) error
	// Ready reports whether the version (-1 for the latest) of a model is ready.
	Ready(model string, version int64) bool
	// Document answers a question about the server or one of its models, in the JSON
	// of the protocol.
	Document(q Question) ([]byte, error)
	// Activity notes on the timeline of a traced request, by its Request.Trace, that
	// something happened at a moment of Now. One that is not traced, or is over, is no
	// error.
	Activity(trace, name string, at int64)
	// MetricFamily registers a family, whose Buckets are ignored: until release,
	// which may be called more than once, nobody gives the name another kind. The
	// description is that of whoever was first. A family without metrics is not
	// shown.
	MetricFamily(family MetricFamily) (release func(), err error)
	// Metric returns the metric with the given labels of the family, making both
	// if needed. Each successful call takes a reference that Metric.Release drops;
	// the metric is shown as long as there is one.
	Metric(family MetricFamily, labels map[string]string) (Metric, error)
}

// Pinner is a Responder that is told which version of the model serves the request that
// Host.Infer was called with.
type Pinner interface {
	Responder
	// Pinned is called at most once, before Respond, with a version above 0.
	Pinned(version int64)
}

// Question is what Host.Document is asked.
type Question struct {
	About   Subject `json:"about"`
	Model   string  `json:"model,omitempty"`
	Version int64   `json:"version,omitempty"` // -1 for the latest, or for all
	Output  string  `json:"output,omitempty"`  // of AboutLabels
}

// Subject says what a question is about.
type Subject string

// The subjects of questions. Those without a document are answered with null, or an error.
const (
	AboutServer     Subject = "server"      // its metadata
	AboutLive       Subject = "live"        // without a document
	AboutReady      Subject = "ready"       // without a document
	AboutIndex      Subject = "index"       // of the repositories
	AboutReadyIndex Subject = "ready_index" // of what is ready there
	AboutModel      Subject = "model"       // its metadata
	AboutConfig     Subject = "config"
	AboutStatistics Subject = "statistics" // of all models where none is named
	AboutLabels     Subject = "labels"     // of an output: a list of texts
	AboutService    Subject = "service"    // whether a request would be taken: {"model": string, "decoupled": bool, "version": number}
)

// MetricKind is counter, gauge or histogram.
type MetricKind uint8

// The kinds of metrics a backend may publish.
const (
	Counter MetricKind = iota
	Gauge
	Histogram
)

// MetricFamily describes a custom metric.
type MetricFamily struct {
	Name, Description string
	Kind              MetricKind
	// Buckets are the upper bounds of a histogram, ascending; +Inf may be left
	// out. Metrics of one family may differ in theirs.
	Buckets []float64
}

// Metric is one custom metric value. A method that does not fit the kind
// fails.
type Metric interface {
	Increment(v float64) error
	Set(v float64) error
	Observe(v float64) error
	Value() (float64, error)
	Release()
}
