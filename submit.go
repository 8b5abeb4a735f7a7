package neso

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/tensor"
)

// Receiver takes what becomes of a request that Submit has sent. It may be a Sender.
type Receiver interface {
	// Pinned is called first, with the model that serves the request, and its version.
	Pinned(model string, version int64)
	// Respond takes a response, which it then owns: an error response too, and nil with
	// final set for an end without one. It is called by one goroutine at a time, with
	// final set exactly once, last. The model waits for it.
	Respond(resp *backend.Response, final bool)
	// Released is called once, when the server does not use the request any more:
	// its inputs are the program's again. That may be before the last response has
	// been taken, or long after.
	Released()
}

// Sender is a Receiver whose memory a model in this process can use as it is. The server
// keeps calls of a backend.Sender from the final response: that comes when none of them
// runs, on the goroutine of the last one if need be, and none begins after it. Memory that
// AllocateOutput returns after the request has been failed is released before the response
// comes.
type Sender interface {
	Receiver
	backend.Sender
	// Keep is called after Pinned with what InPieces returns where inputs are in pieces:
	// Released is called when nobody keeps it any more. It is borrowed.
	Keep(memory *tensor.Buffer)
}

// Follower sees a request, and those that serve it, pass through the server. Its
// methods are called from several goroutines, but for one request in turn.
type Follower interface {
	// Number is that of the request among all that are followed: requests that the model
	// sends with what it was given are told from others by it.
	Number() uint64
	// Begin is called first, with a timestamp of backend.Now. It returns what the model
	// is told of the program's own trace; "" for nothing.
	Begin(model string, version int64, id string, start int64) (propagated string)
	// Queue is called before the request waits for the model, or is looked up in the
	// response cache, with inputs that are borrowed.
	Queue(at int64, inputs []tensor.Tensor)
	// Note is called when the model has reported something, at a moment of backend.Now.
	Note(at int64, activity string)
	// Outputs are those of a response of a request that serves the one that was sent,
	// borrowed. The Receiver has those of that one.
	Outputs(outputs []tensor.Tensor)
	// End is called last, with timestamps of backend.Now: for the request that was sent
	// once the Receiver has taken its last response.
	End(Moments)
	// Child returns the follower of a request that serves this one, or nil.
	Child() Follower
}

// Moments are when a request passed the points of its way; 0 for one that it has
// not passed.
type Moments struct{ Queue, ComputeStart, InputEnd, OutputStart, ComputeEnd, End int64 }

// Submit sends a request and returns before it is answered; a model that is quick
// (backend.Capabilities.Quick) may answer before. ctx cancels it. The memory of the
// inputs, their shapes and names is the server's until Released. An error is a
// refusal: then Respond and Released are not called. follow may be nil.
func (s *Server) Submit(ctx context.Context, q Request, to Receiver, follow Follower) error {
	sink := &submitted{to: to}
	r, trace, err := s.request(ctx, q, sink)
	if err != nil {
		return err
	}
	to.Pinned(r.ModelName, r.ModelVersion)
	r.Detached, r.Background = true, true
	sink.memory.Reset(nil, tensor.Region{}, sink)
	r.Keep(&sink.memory)
	if sender, ok := to.(Sender); ok {
		sender.Keep(&sink.memory)
		sink.sender = sender
		r.Sender, r.TakesDevice = sink, takesOwn
	}
	if follow != nil {
		sink.followed = &followed{to: follow, sent: true, among: &s.running.followers}
		r.Timeline = sink.followed
	}
	if trace != nil {
		sink.ended = trace.Done
	}
	if err := s.running.engine.Infer(r); err != nil {
		if trace != nil {
			trace.Done()
		}
		return err
	}
	return nil
}

// takesOwn is Request.TakesDevice of a program that gives memory for outputs: what lies in
// its own on a GPU, which has no name here, is where it should be.
func takesOwn(gpu tensor.GPU) bool { return gpu == tensor.GPU{} }

// submitted is the sink of Submit, and the Sender of its request.
type submitted struct {
	to       Receiver
	memory   tensor.Buffer // what is let go with the request's inputs
	ended    func()        // nil without a trace of the server's
	answered bool
	followed *followed // nil without a follower

	sender Sender            // nil for a program whose memory is not used
	calls  atomic.Int32      // of sender that run; below zero once there is a final response
	last   *backend.Response // the final one
}

// Deliver implements infer.Sink.
func (s *submitted) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	if !final {
		s.to.Respond(resp, false)
		return
	}
	s.answered = true
	if s.ended != nil {
		s.ended()
	}
	s.last = resp
	if s.sender == nil {
		s.finish()
		return
	}
	s.memory.Retain() // the response may lie in the inputs
	if s.calls.Add(math.MinInt32) == math.MinInt32 {
		s.finish()
		s.memory.Release()
	} // else who leaves last does: a program that does not return from a call holds up nobody but itself
}

// finish gives the final response.
func (s *submitted) finish() {
	s.to.Respond(s.last, true)
	s.last = nil
	if s.followed != nil {
		s.followed.to.End(s.followed.moments)
	}
}

// enter begins a call of the sender; false once there is a final response.
func (s *submitted) enter() bool {
	for {
		n := s.calls.Load()
		if n < 0 {
			return false
		}
		if s.calls.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a call.
func (s *submitted) leave() {
	if s.calls.Add(-1) == math.MinInt32 {
		s.finish()
		s.memory.Release()
	}
}

var errAnswered = backend.Errorf(backend.Internal, "the request has had its final response")

// InPieces implements backend.Sender.
func (s *submitted) InPieces() *tensor.Buffer { return s.sender.InPieces() }

// Pieces implements backend.Sender.
func (s *submitted) Pieces(input string) [][]byte { return s.sender.Pieces(input) }

// PreferOutput implements backend.Sender.
func (s *submitted) PreferOutput(output string, size *uint64, would backend.Memory) (backend.Memory, error) {
	if !s.enter() {
		return would, errAnswered
	}
	defer s.leave()
	return s.sender.PreferOutput(output, size, would)
}

// BeginResponse implements backend.Sender.
func (s *submitted) BeginResponse() {
	if s.enter() {
		defer s.leave()
		s.sender.BeginResponse()
	}
}

// AllocateOutput implements backend.Sender.
func (s *submitted) AllocateOutput(output string, size int, prefers backend.Memory) (*tensor.Buffer, backend.Memory, error) {
	if !s.enter() {
		return nil, backend.Memory{}, errAnswered
	}
	defer s.leave()
	b, at, err := s.sender.AllocateOutput(output, size, prefers)
	if err == nil && s.calls.Load() < 0 { // nobody takes a response that has it
		b.Release()
		return nil, backend.Memory{}, errAnswered
	}
	return b, at, err
}

// ReleaseBuffer is called when the request's inputs have been let go.
func (s *submitted) ReleaseBuffer(*tensor.Buffer) {
	if s.answered { // else the request has been refused
		s.to.Released()
	}
}
