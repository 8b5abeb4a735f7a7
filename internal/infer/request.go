package infer

import (
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

// Request is one request on its way through the server. It is made by a front
// end for one pinned model version, handed to engine.Infer, and ends when the
// final response has been delivered to its sink and no one holds it any more.
type Request struct {
	backend.Request
	Times Times
	// Owner is the pinned version; set by the engine.
	Owner Owner
	// Room is what admission has reserved for the request.
	Room ledger.Room
	// Background says that the goroutine which brings the request has more to do: a
	// batcher must not run a batch on it.
	Background bool
	// Detached says that the goroutine which brings the request must not wait for it:
	// a model that takes time runs on another one. Background is set as well then.
	Detached bool
	// Hidden is how many names at the end of Requested are outputs that the server
	// wants for itself, such as the state of a sequence.
	Hidden int
	// Spare is how many of the names before those are of outputs that the model may
	// leave out: steps of an ensemble take them as optional inputs.
	Spare int
	// Batch is the execution the request is part of, for the phases that the
	// backend writes there. It is set with Times.ComputeStart, and is not to be
	// touched after the final response.
	Batch *backend.Batch
	// Internal marks a request that a model has sent: a waiting model must not wait
	// for an answer that may be its own.
	Internal bool
	// OnAbandoned, if not nil, is called when the request has been answered but its
	// execution does not come back: it goes on to hold its inputs and its version.
	// Abandoned says so from then on.
	OnAbandoned func(*Request)
	Abandoned   bool
	// Cache is what the response cache has done for the request.
	Cache Cache
	// Timeline follows a sampled request; nil for all others.
	Timeline Timeline
	// Spans, if not nil, takes the requests that are sent for this one; see Follow.
	Spans *Spans
	// For are those of the requests that this one is sent for, as far as they want it.
	For []*Spans
	// Held, if not nil, is the scheduler that holds responses of the request back, or
	// takes the request back.
	Held Held
	// Taken, if not nil, is called when the request has its place on an instance:
	// requests that are executed from now on come behind it. It does not wait, and may be
	// called again.
	Taken func()
	// Placed, if not nil, is called when the batch that the request is the first of is in
	// the channel of the instance's worker: the next one that is sent lies behind it.
	Placed func()
	// Payer is whose quotas the request uses, where the server asks for keys; else
	// nil.
	Payer Payer
	// Route is why the request goes to its version; nil for a model without rules for
	// that, and for requests from inside.
	Route *rollout.Route
	// Text counts what a model writes for the request; nil for a model of another kind.
	Text *generation.Text
	// Growth reserves further input bytes, or gives some back; set by the engine.
	Growth func(r *Request, bytes int64) *backend.Error

	sink  Sink
	watch func(resp *backend.Response, final bool)
	refs  atomic.Int32
	ended atomic.Bool
	done  func(*Request)
	seen  int
	told  int // responses that were counted, empty ones too
	fail  *backend.Error
	why   Reason
	// unheard says that nobody waited for the answer any more when it failed.
	unheard bool
	kept    []*tensor.Buffer
	left    atomic.Bool // the payer does not count the request any more
}

// Times are the points a request passes, in the clock of backend.Now; 0 means
// not reached.
type Times struct {
	Receive      int64 // the front end read the first byte of the body
	Start        int64 // request decoded, handed to the engine
	Queue        int64 // entered the scheduler
	ComputeStart int64 // left the queue, on an instance
	InputEnd     int64 // inputs ready for the model
	OutputStart  int64 // the model is done, outputs are being taken
	ComputeEnd   int64 // outputs taken
	Response     int64 // last response delivered that was not the final one
	End          int64 // final response delivered
	// Steps, for the request of an ensemble, holds what queue, compute input,
	// compute infer and compute output took in its steps. It counts instead of the
	// points above, and is valid until the request is finished.
	Steps *[4]int64
}

// Cache is what the response cache has done for a request. Times are in the clock
// of backend.Now.
type Cache struct {
	Start, End int64 // of the look-up, the key included; 0 without one
	// Hit says that the answer comes from the cache, Joined that it is the one of an
	// identical request. Either was checked before, and is not counted as executed.
	Hit, Joined bool
	// Missed is what look-up and insertion of an answer that was not there took in
	// nanoseconds; 0 when it is not to be counted.
	Missed int64
	// Pending is what the owner keeps of the request until its answer is there.
	Pending any
}

// Payer is the key that a request was sent with.
type Payer interface {
	// Name is the key's name, never the key.
	Name() string
	// Leave ends the use of so many bytes and of one request.
	Leave(bytes int64)
	// Grow adds bytes to those of a request; fewer than none are given back.
	Grow(bytes int64) *backend.Error
}

// Reason classifies a failure for the metric label `reason`.
type Reason uint8

// Failure reasons.
const (
	NoFailure Reason = iota
	Other            // everything else, e.g. ensemble errors
	Rejected         // expired in a queue
	Canceled         // cancelled while queued
	Backend          // execute failed, or the backend answered with an error
)

// String returns the label value.
func (r Reason) String() string {
	return [...]string{"", "OTHER", "REJECTED", "CANCELED", "BACKEND"}[r]
}

// Held is a scheduler's end of a request.
type Held interface {
	// Answered reports whether the backend owes nothing more for the execution that
	// has ended, though the final response has perhaps not been delivered.
	Answered() bool
}

// Owner is the model version a request is pinned to.
type Owner interface {
	// CheckResponse may drop outputs that were not asked for, and turns a response
	// that contradicts the configuration into an error by setting resp.Err.
	CheckResponse(r *Request, resp *backend.Response)
	// CountResponse counts a response, the index-th of the request from 0, with its
	// error if it has one; nil is an empty one, which nobody sees.
	CountResponse(r *Request, resp *backend.Response, index int)
	// Finish is called once, when the final response is given: it counts.
	Finish(r *Request)
}

// Sink is the front end's end of a request.
type Sink interface {
	// Deliver takes one response, whose tensors it then owns; resp is nil for a
	// final mark without a response. It may wait for room, but not longer than
	// the request's Ctx lives. It is called by one goroutine at a time, and with
	// final set exactly once, last.
	Deliver(r *Request, resp *backend.Response, final bool)
}

// New returns a request that answers into sink. done, if not nil, is called
// once when the request has ended and nobody holds it: inputs are released by
// then. The request begins with one hold, dropped by the final response.
func New(sink Sink, done func(*Request)) *Request {
	r := &Request{}
	r.Init(sink, done)
	return r
}

// Init makes a zero Request what New returns, for requests that are made many at
// a time.
func (r *Request) Init(sink Sink, done func(*Request)) {
	r.sink, r.done = sink, done
	r.Responder = r
	r.refs.Store(1)
}

// Hold keeps the request and its inputs alive until Drop, beyond the final
// response.
func (r *Request) Hold() { r.refs.Add(1) }

// LastHold reports whether the caller's Hold is the only one left: then the
// final response has been given and delivered, and nobody else uses the request.
func (r *Request) LastHold() bool { return r.refs.Load() == 1 && r.ended.Load() }

// Keep consumes a reference of b and drops it when the request's inputs are
// released. The caller holds the request, and is the only one to call Keep.
func (r *Request) Keep(b *tensor.Buffer) { r.kept = append(r.kept, b) }

// Drop ends a Hold. The last one releases the inputs.
func (r *Request) Drop() {
	switch n := r.refs.Add(-1); {
	case n > 0:
	case n == 0:
		for i := range r.Inputs {
			r.Inputs[i].Release()
		}
		for _, b := range r.kept {
			b.Release()
		}
		r.kept = nil
		if r.done != nil {
			r.done(r)
		}
	default:
		panic("infer: Drop of a request that has ended")
	}
}

// LeavePayer ends what the request uses of its payer's quotas, at once and before
// its inputs are let go. It is part of the final response and may be called again:
// a client that waits for each answer has only one request in the server, ever.
func (r *Request) LeavePayer() {
	if r.Payer != nil && !r.left.Swap(true) {
		r.Payer.Leave(r.Room.Bytes)
	}
}

// Watch has f borrow each response before it is delivered, and the final mark. It is
// called before the request is handed to the engine's models, once; f must not wait.
func (r *Request) Watch(f func(resp *backend.Response, final bool)) { r.watch = f }

// Discard ends a request that was never answered: one that a front end could
// not decode, or that was refused at once.
func (r *Request) Discard() {
	if !r.ended.Swap(true) {
		r.Text.End()
		r.Drop()
	}
}

// Reserve asks for further input bytes, before there is memory for them: what
// has been decoded may be larger than what came. They end with the request.
func (r *Request) Reserve(bytes int64) *backend.Error {
	if r.Growth == nil {
		return nil
	}
	return r.Growth(r, bytes)
}

// Return gives back bytes of those that Reserve, or the pin, has counted: what
// they were for has been let go before the request ends.
func (r *Request) Return(bytes int64) {
	if r.Growth != nil && bytes > 0 {
		_ = r.Growth(r, -bytes)
	}
}

// Size returns what the request counts for in a batch: at least 1.
func (r *Request) Size() int { return max(1, r.BatchSize) }

// LogPrefix returns the words with which core errors begin: the request's id.
func (r *Request) LogPrefix() string {
	if r.ID == "" {
		return "[request id: <id_unknown>] "
	}
	return "[request id: " + r.ID + "] "
}
