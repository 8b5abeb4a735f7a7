package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/modelconfig"
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
func (s *Server) generate(w http.ResponseWriter, r *http.Request, caller *auth.Caller, name string, version int64, stream bool) {
	h := w.Header()
	// Whatever ends the answer early, a client that is gone or an answer that is
	// wrong already, cancels the request.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	g, err := s.decodeGenerate(ctx, w, r, caller, name, version)
	if err != nil {
		if refused(err) {
			s.drain(w, r)
		}
		replyError(w, h, jsonType, bodyError(err))
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
		replyError(w, h, jsonType, fail)
		return
	}
	if stream {
		fail = s.sendEvents(w, h, &g, first, trace)
	} else {
		fail = s.sendGenerated(w, h, &g, first, trace)
	}
}

// decodeGenerate reads the body and makes a request of it.
func (s *Server) decodeGenerate(ctx context.Context, w http.ResponseWriter, r *http.Request, caller *auth.Caller, name string, version int64) (generating, error) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	received := backend.Now()
	pin, err := s.admitGenerate(w, r, c, caller, name, version)
	if err != nil {
		return generating{}, err
	}
	g := generating{sink: infer.NewStream(ctx, streamRoom), config: pin.Model.Config(), version: pin.Model.Version()}
	g.req = pin.NewRequest(g.sink)
	g.req.Times.Receive = received
	g.req.Ctx = ctx
	c.body.Limit = s.o.MaxInputSize
	target := kserve.Target{Config: g.config, Allocator: pin.Model.Allocator(), Reserver: g.req}
	if err := c.decoder.DecodeGenerate(&g.req.Request, target, &c.body); err != nil {
		g.req.Abandon()
		return generating{}, err
	}
	g.id = g.req.ID
	return g, nil
}

// admitGenerate reads the body, all of which is JSON, and pins the model.
func (s *Server) admitGenerate(w http.ResponseWriter, r *http.Request, c *call, caller *auth.Caller, name string, version int64) (engine.Pin, error) {
	if coding := r.Header["Content-Encoding"]; len(coding) > 0 && coding[0] != "" && coding[0] != "identity" {
		return engine.Pin{}, errGenerateCoding
	}
	var err error
	switch n := r.ContentLength; {
	case n > s.o.MaxInputSize:
		err = s.jsonTooLong(n)
	case n >= 0 && n <= smallBody:
		c.body.JSON = s.buffer(c, int(n))
		err = readFull(r.Body, c.body.JSON)
	default:
		if c.body.JSON, err = s.slurp(c, s.steady(w, r), s.o.MaxInputSize); err == errTooLong { //nolint:errorlint // our own value
			err = s.jsonTooLong(s.o.MaxInputSize + 1)
		}
	}
	if err != nil {
		return engine.Pin{}, err
	}
	return s.engine.ResolveFor(caller, name, version, int64(len(c.body.JSON)))
}

// sendGenerated answers with the one response, or with the error that there is
// not exactly one; a second response is enough to know.
func (s *Server) sendGenerated(w http.ResponseWriter, h http.Header, g *generating, resp *backend.Response, trace *tracing.Trace) *backend.Error {
	if second := g.sink.Next(); resp == nil || second != nil {
		resp.Release()
		second.Release()
		fail := backend.Errorf(backend.InvalidArg, kserve.TextExactlyOne)
		defer trace.Send()()
		s.finish(w, h, http.StatusBadRequest, kserve.AppendError(nil, fail.Message))
		return fail
	}
	body, fail := kserve.AppendGenerate(nil, g.config, g.id, g.version, resp)
	resp.Release()
	defer trace.Send()()
	if fail != nil {
		s.finish(w, h, http.StatusBadRequest, kserve.AppendError(nil, fail.Message))
		return fail
	}
	s.finish(w, h, http.StatusOK, body)
	return nil
}

// finish sends a whole reply, at once: the handler may have to wait for the
// model before it returns.
func (s *Server) finish(w http.ResponseWriter, h http.Header, status int, body []byte) {
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	defer s.boundWrite(w, len(body))()
	w.WriteHeader(status)
	if _, err := w.Write(body); err == nil {
		_ = flush(w) // a client that is gone needs no answer
	}
}

// sendEvents answers with one server-sent event for each response. The first
// one decides about the status. Each leaves at once, unless the next one is
// there already; a client that takes nothing for ReadTimeout is given up. It
// returns the first error among the responses.
func (s *Server) sendEvents(w http.ResponseWriter, h http.Header, g *generating, first *backend.Response, trace *tracing.Trace) (fail *backend.Error) {
	h["Content-Type"], h["Cache-Control"] = eventType, noCache
	var event []byte
	begun := false
	for resp := first; resp != nil; resp = g.sink.Next() {
		var bad *backend.Error
		event, bad = kserve.AppendEvent(event[:0], g.config, g.id, g.version, resp)
		resp.Release()
		if fail == nil {
			fail = bad
		}
		if !begun && bad != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		begun = true
		sent := trace.Send()
		end := s.boundWrite(w, len(event))
		_, err := w.Write(event)
		if err == nil && !g.sink.Waiting() {
			err = flush(w)
		}
		end()
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

// boundWrite bounds the time of a write of size bytes until the returned
// function is called.
func (s *Server) boundWrite(w http.ResponseWriter, size int) func() {
	d, ok := w.(deadlines)
	if !ok {
		return func() {}
	}
	_ = d.SetWriteDeadline(time.Now().Add(s.o.ReadTimeout + time.Duration(size/minRate)*time.Second))
	return func() { _ = d.SetWriteDeadline(time.Time{}) }
}

// flush sends what has been written, where the writer can.
func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }
