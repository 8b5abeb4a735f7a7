package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/tracing"
)

// streamRoom is how many responses wait for the client in this package. The
// next one makes the model wait.
const streamRoom = 8

var (
	eventType         = []string{"text/event-stream; charset=utf-8"}
	noCache           = []string{"no-cache"}
	errGenerateCoding = backend.Errorf(backend.InvalidArg, "Unsupported content-encoding, only 'identity' is supported.")
)

// generating is one generate request that has been decoded.
type generating struct {
	req    *infer.Request
	sink   *infer.Stream
	config *modelconfig.Config
	// id and version are kept: the request may be gone once it is answered.
	id      string
	version int64
}

// generate is hop 1 of both forms of the generate extension: the model's
// memory is filled from a flat JSON object and the request goes on to
// engine.Infer (hop 2). Its answers come back from infer.Request.Respond (hop 7).
func (s *Server) generate(w http.ResponseWriter, r *http.Request, caller *auth.Caller, name string, ask rollout.Ask, stream bool) {
	h := w.Header()
	// Whatever ends the answer early, a client that is gone or an answer that is
	// wrong already, cancels the request.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := s.inferences.Get().(*inference)
	defer s.release(c)
	g, err := s.decodeGenerate(ctx, w, r, c, caller, name, ask)
	if err != nil {
		s.turnAway(w, r, c, err)
		s.replyError(w, h, jsonType, bodyError(err))
		return
	}
	stopReadTimer(w)
	var fail *backend.Error
	if s.o.Logger != nil && s.o.Logger.Enabled(ctx, logging.Verbose(1)) {
		g.req.Hold()
		defer func() { s.access(r, g.req, fail) }()
	}
	g.req.Times.Start = backend.Now()
	trace := s.startTrace(r, g.req)
	defer trace.Done()
	if stream {
		trace.EachResponse()
	}
	// The engine may run the model on the goroutine that brings the request, and
	// this one reads its responses. It ends with the request or, where the model
	// goes on behind its final response, with the execution.
	go func() {
		if err := s.engine.Infer(g.req); err != nil {
			g.sink.Refuse(err)
		}
	}()
	defer func() {
		cancel()
		g.sink.Drain()
	}()
	first := g.sink.Next()
	s.reportLoad(h, r, name)
	if err := g.sink.Refusal(); err != nil {
		fail = backend.AsError(err)
		s.replyError(w, h, jsonType, fail)
		return
	}
	if stream {
		fail = s.sendEvents(w, r, h, c, &g, first, trace)
	} else {
		fail = s.sendGenerated(w, r, h, c, &g, first, trace)
	}
}

// decodeGenerate reads the body and makes a request of it.
func (s *Server) decodeGenerate(ctx context.Context, w http.ResponseWriter, r *http.Request, c *inference, caller *auth.Caller, name string,
	ask rollout.Ask,
) (generating, error) {
	received := backend.Now()
	if coded(r) {
		return generating{}, errGenerateCoding
	}
	if r.ContentLength > s.o.MaxInputSize {
		return generating{}, s.jsonTooLong(r.ContentLength)
	}
	sink := infer.NewStream(ctx, streamRoom)
	c.key = caller.Share()
	sink.Ledger, sink.By.Key = s.ledger(), c.key
	pin, req, err := s.admit(w, r, c, caller, name, ask, sink)
	if err != nil {
		return generating{}, err
	}
	g := generating{sink: sink, config: pin.Model.Config(), version: pin.Model.Version(), req: req}
	g.req.Times.Receive = received
	g.req.Ctx = ctx
	c.body.Limit = s.o.MaxInputSize
	target := kserve.Target{Config: g.config, Allocator: pin.Model.Allocator(), Reserver: g.req, Apart: c.text.Room() > 0}
	fault := s.heavily(ctx.Done(), len(c.body.JSON) >= heavyText, func() *backend.Error {
		return c.decoder.DecodeGenerate(&g.req.Request, target, &c.body)
	})
	c.decoded(req)
	if fault != nil {
		g.req.Discard()
		return generating{}, fault
	}
	pin = pin.Continue(req)
	g.id, g.config, g.version = g.req.ID, pin.Model.Config(), pin.Model.Version()
	return g, nil
}

// sendGenerated answers with the one response, or with the error that there is
// not exactly one; a second response is enough to know.
func (s *Server) sendGenerated(w http.ResponseWriter, r *http.Request, h http.Header, c *inference, g *generating, resp *backend.Response,
	trace *tracing.Trace,
) *backend.Error {
	if second := g.sink.Next(); resp == nil || second != nil {
		resp.Release()
		second.Release()
		fail := backend.Errorf(backend.InvalidArg, jsonwire.TextExactlyOne)
		defer trace.Send()()
		s.finish(w, h, c, http.StatusBadRequest, jsonwire.AppendError(nil, fail.Message))
		return fail
	}
	var body []byte
	fail := s.heavily(r.Context().Done(), infer.Bytes(resp) >= heavyText, func() (err *backend.Error) {
		body, err = jsonwire.AppendGenerate(nil, g.config, g.id, g.version, resp)
		return err
	})
	resp.Release()
	defer trace.Send()()
	status := generateStatus(fail)
	if fail == nil {
		if fail = s.hold(w, r, c, len(body)); fail != nil {
			status = kserve.HTTPStatus(fail.Code)
		}
	}
	if fail != nil {
		s.finish(w, h, c, status, jsonwire.AppendError(nil, fail.Message))
		return fail
	}
	s.finish(w, h, c, http.StatusOK, body)
	return nil
}

// generateStatus is that of an error of the model: 400 whatever its code, as the peer's. A process
// that has died is no fault of the request, which may be sent again.
func generateStatus(fail *backend.Error) int {
	if fail != nil && errors.Is(fail, backend.ErrProcessEnded) {
		return kserve.HTTPStatus(fail.Code)
	}
	return http.StatusBadRequest
}

// finish sends a whole reply, at once: the handler may have to wait for the
// model before it returns.
func (s *Server) finish(w http.ResponseWriter, h http.Header, c *inference, status int, body []byte) {
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if s.transmit(w, c, body, nil) == nil {
		_ = flush(w) // a client that is gone needs no answer
	}
}

// sendEvents answers with one server-sent event for each response. The first
// one decides about the status. Each leaves at once, unless the next one is
// there already; a client that takes nothing for ReadTimeout is given up. It
// returns the first error among the responses.
func (s *Server) sendEvents(w http.ResponseWriter, r *http.Request, h http.Header, c *inference, g *generating, first *backend.Response,
	trace *tracing.Trace,
) (fail *backend.Error) {
	h["Content-Type"], h["Cache-Control"] = eventType, noCache
	var event []byte
	begun := false
	for resp := first; resp != nil; resp = g.sink.Next() {
		bad := s.heavily(r.Context().Done(), infer.Bytes(resp) >= heavyText, func() (err *backend.Error) {
			event, err = jsonwire.AppendEvent(event[:0], g.config, g.id, g.version, resp)
			return err
		})
		resp.Release()
		if bad == errGone {
			return errGone
		}
		if bad == nil {
			if bad = s.hold(w, r, c, len(event)); bad != nil {
				event = jsonwire.AppendEventError(event[:0], bad)
			}
		}
		if fail == nil {
			fail = bad
		}
		if !begun && bad != nil {
			w.WriteHeader(generateStatus(bad))
		}
		begun = true
		sent := trace.Send()
		err := s.transmit(w, c, event, nil)
		if err == nil && !g.sink.Waiting() {
			err = flush(w)
		}
		c.out.Close()
		sent()
		if err != nil {
			return fail // the client is gone
		}
		if cap(event) > keepScratch {
			event = nil
		}
	}
	if !begun {
		_ = flush(w) // no response: the head of an empty stream
	}
	return fail
}

// flush sends what has been written, where the writer can.
func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }
