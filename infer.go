package neso

import (
	"context"
	"net/http"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/tensor"
)

// Request is an inference request made by the program itself.
type Request struct {
	Model string
	// Version of the model; 0 means the latest ready one.
	Version int64
	ID      string
	// Inputs are borrowed: their memory must not change before the call returns.
	// Shapes include the batch dimension where the model batches.
	Inputs []tensor.Tensor
	// Outputs names the outputs wanted; empty means all.
	Outputs     []string
	Parameters  []backend.Parameter
	Priority    uint64
	Timeout     uint64 // microseconds, for the model's queue policy
	Correlation backend.CorrelationID
	Flags       backend.Flags
	// TraceParent and TraceState are the W3C context of the program's own span,
	// as in the headers of these names; the request's spans are below it where
	// the server traces to a Collector. Empty begins a trace of its own.
	TraceParent, TraceState string
}

// Infer runs a request without any network and returns its one response, which
// the caller releases. The error is a *backend.Error with the code and text a
// client would see. When ctx ends first, the request leaves its queue.
func (s *Server) Infer(ctx context.Context, q Request) (*backend.Response, error) {
	sink := infer.NewSingle()
	trace, err := s.infer(ctx, q, sink)
	defer trace.Done()
	if err != nil {
		return nil, err
	}
	resp, bad := sink.Wait()
	if bad != nil {
		return nil, bad
	}
	return resp, nil
}

// WarmupRequests returns the warm-up samples of a model's configuration as
// requests; their IDs are the names of the samples.
func (s *Server) WarmupRequests(model string) ([]Request, error) {
	if s.running == nil || s.running.engine == nil {
		return nil, ErrNotRunning
	}
	pin, err := s.running.engine.Resolve(model, -1, 0)
	if err != nil {
		return nil, err
	}
	defer pin.Unpin()
	samples, err := pin.Model.Samples()
	if err != nil {
		return nil, err
	}
	requests := make([]Request, len(samples))
	for i, sample := range samples {
		requests[i] = Request{Model: model, ID: sample.Name, Inputs: sample.Inputs}
	}
	return requests, nil
}

// Stream runs a request of any model, decoupled ones too, and calls yield for
// each response, error responses included, in order. yield owns the response.
// When yield returns false, the request is cancelled and further responses are
// released. Stream returns after the final response.
func (s *Server) Stream(ctx context.Context, q Request, yield func(*backend.Response) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sink := &streamSink{yield: yield, cancel: cancel, done: make(chan struct{})}
	trace, err := s.infer(ctx, q, sink)
	defer trace.Done()
	if err != nil {
		return err
	}
	<-sink.done
	return nil
}

// streamSink hands responses to a function.
type streamSink struct {
	yield   func(*backend.Response) bool
	cancel  func()
	done    chan struct{}
	stopped bool // yield wants no more
}

// Deliver is called by one goroutine at a time.
func (s *streamSink) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	switch {
	case resp == nil:
	case s.stopped:
		resp.Release()
	case !s.yield(resp):
		s.stopped = true
		s.cancel()
	}
	if final {
		close(s.done)
	}
}

// infer hands a request on. The caller owes the trace, which may be nil, a Done
// once the request is over, or has failed.
func (s *Server) infer(ctx context.Context, q Request, sink infer.Sink) (*tracing.Trace, error) {
	if s.running == nil || s.running.engine == nil {
		return nil, ErrNotRunning
	}
	if q.Version == 0 {
		q.Version = -1
	}
	bytes := int64(0)
	for i := range q.Inputs {
		bytes += int64(len(q.Inputs[i].Data))
	}
	pin, err := s.running.engine.Resolve(q.Model, q.Version, bytes)
	if err != nil {
		return nil, err
	}
	r := pin.NewRequest(sink)
	r.Ctx, r.ID, r.Requested, r.Parameters = ctx, q.ID, q.Outputs, q.Parameters
	r.Priority, r.Timeout, r.Correlation, r.Flags = q.Priority, q.Timeout, q.Correlation, q.Flags
	r.Inputs = make([]tensor.Tensor, len(q.Inputs))
	for i, t := range q.Inputs {
		t.Shape = t.Shape.Clone() // the server may reshape it
		t.Retain()
		r.Inputs[i] = t
	}
	r.Times.Start = backend.Now()
	trace := s.startTrace(r, q.TraceParent, q.TraceState)
	return trace, s.running.engine.Infer(r)
}

func (s *Server) startTrace(r *infer.Request, parent, state string) *tracing.Trace {
	t := s.running.tracer
	if !t.On() {
		return nil // no closure is made
	}
	return t.Start(r, nil, func(name string) string {
		switch name {
		case "traceparent":
			return parent
		case "tracestate":
			return state
		}
		return ""
	})
}

// Handler is the HTTP front end, to be mounted in a mux of the program; nil
// before Start. It answers while the server runs.
func (s *Server) Handler() http.Handler {
	if s.running == nil || s.running.api == nil {
		return nil
	}
	return s.running.api
}
