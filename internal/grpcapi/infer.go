package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/protowire"
	"github.com/nesoserve/neso/internal/tracing"
)

// inference is the state of one ModelInfer, reused from one to the next.
type inference struct {
	request  protowire.Request
	meaning  kserve.ResponseOptions
	response protowire.Response
	single   *infer.Single
	trace    *tracing.Trace // nil for a request that is not sampled
}

var inferences = sync.Pool{New: func() any { return &inference{single: infer.NewSingle()} }}

// modelInfer is hop 1 of a unary request: it leads to engine.Infer (hop 2) and
// writes the answer (hop 7).
func (s *Server) modelInfer(_ any, g grpc.ServerStream) error {
	stream := transport.StreamOf(g)
	received := backend.Now()
	c := inferences.Get().(*inference)
	defer c.free()
	if err := stream.RecvMsg(&c.request); err != nil {
		return err
	}
	ctx := stream.Context()
	s.compression(stream)
	if s.closing.Load() {
		return fail(stream, errShutdown())
	}
	resp, err := s.run(ctx, c, received)
	if trace := c.trace; trace != nil {
		end := trace.Send()
		stream.AfterSend(func() {
			end()
			trace.Done()
		})
	}
	if err != nil {
		return fail(stream, err)
	}
	c.response.Outputs, c.response.Parameters = resp.Outputs, resp.Parameters
	if _, err := c.response.Size(); err != nil {
		resp.Release()
		return fail(stream, err)
	}
	resp.Outputs = nil // the message owns them now
	return stream.SendMsg(&c.response)
}

// run takes the parsed request through the server and returns its one response.
// The client's shared memory is let go then.
func (s *Server) run(ctx context.Context, c *inference, received int64) (resp *backend.Response, bad *backend.Error) {
	defer c.meaning.ReleaseRegions()
	ask, bad := s.ask(ctx, c.request.ModelName, c.request.ModelVersion)
	if bad != nil {
		return nil, bad
	}
	pin, err := s.o.Engine.ResolveFor(ctx, s.caller(ctx), transport.ShareOf(ctx), c.request.ModelName, ask,
		c.request.InputBytes()+c.request.TextBytes())
	if err != nil {
		return nil, backend.AsError(err)
	}
	m := pin.Model
	cfg := m.Config()
	if cfg.Decoupled {
		pin.Unpin()
		return nil, &backend.Error{Code: backend.Unsupported, Message: textDecoupled}
	}
	r := pin.NewRequest(c.single)
	r.Times.Receive = received
	r.Ctx = ctx
	if bad := protowire.Decode(&c.request, &r.Request, &c.meaning,
		kserve.Target{Config: cfg, Allocator: m.Allocator(), Memory: s.usable(ctx)}); bad != nil {
		r.Discard()
		return nil, bad
	}
	if s.forward != nil {
		if bad := s.forward.apply(ctx, r); bad != nil {
			r.Discard()
			return nil, bad
		}
	}
	if err := c.meaning.ReadRegions(r, m.Allocator()); err != nil {
		r.Discard()
		return nil, backend.AsError(err)
	}
	pin = pin.Continue(r)
	m = pin.Model
	c.request.Reset() // lets go of the transport's buffers while the model runs
	c.response = protowire.Response{ModelName: r.ModelName, ModelVersion: protowire.Version(m.Version()), ID: r.ID}
	if s.verbose(ctx) {
		r.Hold()
		defer func() {
			s.access(ctx, r, bad)
			r.Drop()
		}()
	}
	r.Times.Start = backend.Now()
	c.trace = s.startTrace(ctx, r)
	if err := s.o.Engine.Infer(r); err != nil {
		return nil, backend.AsError(err)
	}
	if resp, bad = c.single.Wait(); bad != nil {
		return nil, bad
	}
	if bad = kserve.ApplyResponseOptions(&c.meaning, m.Config(), m, resp); bad != nil {
		resp.Release()
		return nil, bad
	}
	return resp, nil
}

func (c *inference) free() {
	c.request.Reset()
	c.meaning.Reset()
	c.response = protowire.Response{}
	c.trace = nil
	inferences.Put(c)
}
