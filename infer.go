package neso

import (
	"context"
	"net/http"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/tracing"
	"github.com/nesoserve/neso/tensor"
)

// Request is an inference request made by the program itself.
type Request struct {
	// Model is its name; "digits@canary" is the version of digits with that label, unless
	// there is a model of that whole name.
	Model string
	// Version of the model; 0 means the latest ready one, or the one that the rules for
	// the versions of the model choose.
	Version int64
	ID      string
	// Inputs are borrowed: their memory must not change before the call returns, and
	// that of a Buffer not as long as others refer to it.
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
// client would see. When ctx ends first, Infer returns at once with
// backend.Cancelled and the cause, which errors.Is finds as it does
// context.DeadlineExceeded and context.Canceled: a request in the queue leaves it, a model that
// runs it is told (a function that is bound by its context) and its answer is
// dropped. Inputs without a Buffer are copied for that, unless ctx cannot end.
func (s *Server) Infer(ctx context.Context, q Request) (*backend.Response, error) {
	if ctx.Done() == nil {
		return s.inferHere(ctx, q)
	}
	sink := &single{ending: ending{done: make(chan struct{})}}
	if err := s.start(ctx, q, sink); err != nil {
		return nil, err
	}
	return sink.response(ctx)
}

// inferHere is Infer where nothing can end the wait: the model may run on the
// caller's goroutine and read the caller's memory.
func (s *Server) inferHere(ctx context.Context, q Request) (*backend.Response, error) {
	sink := infer.NewSingle()
	r, trace, err := s.request(ctx, q, sink)
	if err != nil {
		return nil, err
	}
	defer trace.Done()
	if err := s.running.engine.Infer(r); err != nil {
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
	pin, err := s.running.engine.Resolve(context.Background(), model, -1, 0)
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
// Stream returns nil after the final response. When yield returns false, or ctx
// ends, the request is cancelled, further responses are released and Stream
// returns at once, or when a yield that runs has returned; for ctx with
// backend.Cancelled and its cause. A panic of yield is one of Stream.
func (s *Server) Stream(ctx context.Context, q Request, yield func(*backend.Response) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sink := &streamSink{ending: ending{done: make(chan struct{})}, yield: yield, cancel: cancel}
	if err := s.start(ctx, q, sink); err != nil {
		return err
	}
	return sink.await(ctx)
}

// start hands a request on, with inputs of its own, so that the caller need not
// wait for its end.
func (s *Server) start(ctx context.Context, q Request, sink leavable) error {
	if ctx.Err() != nil {
		return errEnded(ctx)
	}
	r, trace, err := s.request(ctx, q, sink)
	if err != nil {
		return err
	}
	if err := own(r, r.Owner.(*model.Model).Allocator(), s.running.engine.Allocator()); err != nil {
		r.Discard()
		trace.Done()
		return err
	}
	e := sink.end()
	e.last = trace.Done
	// It ends with the request, whose pin holds the version: the model may run on it.
	go func() {
		if err := s.running.engine.Infer(r); err != nil {
			e.finish(err) // the sink is not called
		}
	}()
	return nil
}

// own gives a request inputs that nobody else changes: those without a buffer
// that is counted are the caller's, who may use the memory again once the call
// has returned.
func own(r *infer.Request, allocators ...tensor.Allocator) error {
	a := allocators[0]
	if a == nil {
		a = allocators[1]
	}
	for i := range r.Inputs {
		t := &r.Inputs[i]
		if t.Buffer != nil || len(t.Data) == 0 {
			continue
		}
		n := len(t.Data)
		b, err := a.Allocate(n)
		if err != nil {
			return err
		}
		copy(b.Bytes(), t.Data)
		t.Buffer, t.Data = b, b.Bytes()[:n:n]
	}
	r.Requested = slices.Clone(r.Requested)
	r.Parameters = slices.Clone(r.Parameters)
	return nil
}

// request makes a request. The caller owes the trace, which may be nil, a Done
// once the request is over, or has failed.
func (s *Server) request(ctx context.Context, q Request, sink infer.Sink) (*infer.Request, *tracing.Trace, error) {
	if s.running == nil || s.running.engine == nil {
		return nil, nil, ErrNotRunning
	}
	if q.Version == 0 {
		q.Version = -1
	}
	bytes := int64(0)
	for i := range q.Inputs {
		bytes += int64(len(q.Inputs[i].Data))
	}
	model, ask := s.running.engine.Inside(q.Model, q.Version)
	pin, err := s.running.engine.ResolveFor(ctx, nil, nil, model, ask, bytes)
	if err != nil {
		return nil, nil, err
	}
	r := pin.NewRequest(sink)
	r.Ctx, r.ID, r.Requested, r.Parameters = ctx, q.ID, q.Outputs, q.Parameters
	r.Priority, r.Timeout, r.Correlation, r.Flags = q.Priority, q.Timeout, q.Correlation, q.Flags
	pin.Continue(r)
	r.Inputs = make([]tensor.Tensor, len(q.Inputs))
	for i, t := range q.Inputs {
		t.Shape = t.Shape.Clone() // the server may reshape it
		t.Retain()
		r.Inputs[i] = t
	}
	if s.running.engine.Recent().Watched() {
		calls, _ := ctx.Value(callsKey{}).([]any) // the program is perhaps a function that serves a request
		r.For = infer.SpansOf(calls)
	}
	r.Times.Start = backend.Now()
	return r, s.startTrace(r, q.TraceParent, q.TraceState), nil
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
