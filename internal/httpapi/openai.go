package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/openai"
	"github.com/nesoserve/neso/internal/openai/flight"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/tracing"
)

// openAIPrefix is where OpenAI's routes are, if they are asked for.
const openAIPrefix = "/v1/"

var openAIPaths = map[string]endpoint{
	"models": openAIModels, "completions": openAICompletions, "chat/completions": openAIChat, "embeddings": openAIEmbeddings,
	"responses": openAIResponses,
}

// openAIRoutes are those that models answer.
var openAIRoutes = map[endpoint]openai.Route{
	openAICompletions: openai.Completions, openAIChat: openai.Chat, openAIEmbeddings: openai.Embeddings, openAIResponses: openai.Responses,
}

// routeOpenAI finds a route of OpenAI's API. The name of a model may have slashes.
func routeOpenAI(path string) target {
	rest, ok := strings.CutPrefix(path, openAIPrefix)
	if !ok {
		return target{}
	}
	if e, ok := openAIPaths[rest]; ok {
		return target{endpoint: e}
	}
	if name, ok := strings.CutPrefix(rest, "models/"); ok && name != "" {
		if name, err := url.PathUnescape(name); err == nil {
			return target{endpoint: openAIModel, name: name}
		}
	}
	return target{}
}

// openAI answers what was sent to one of OpenAI's routes.
func (s *Server) openAI(w *openai.Writer, r *http.Request, caller *auth.Caller, t target) {
	route, asks := openAIRoutes[t.endpoint]
	if !asks {
		s.openAIModels(w, r, caller, t)
		return
	}
	came, received := time.Now(), backend.Now()
	c := s.inferences.Get().(*inference)
	defer s.release(c)
	c.key = caller.Share()
	q, calls, m, ok := s.readOpenAI(w, r, caller, c, route)
	if !ok {
		return
	}
	o := flight.Options{
		Engine: s.engine, Caller: caller, Model: m.model, Ask: m.ask, Came: received, Limit: s.o.MaxInputSize,
		Heavily: func(stop <-chan struct{}, size int, f func() *backend.Error) *backend.Error {
			return s.heavily(stop, size >= heavyText, f)
		},
		Trace: func(req *infer.Request) *tracing.Trace { return s.startTrace(r, req) },
	}
	if s.o.Logger != nil && s.o.Logger.Enabled(r.Context(), logging.Verbose(1)) {
		o.Ended = func(req *infer.Request, fail *backend.Error) { s.access(r, req, fail) }
	}
	f, fail := flight.Begin(r.Context(), o, q, calls)
	if fail != nil {
		s.replyError(w, w.Header(), jsonType, fail)
		return
	}
	defer f.Close()
	id := make([]byte, 12)
	_, _ = rand.Read(id) // it never fails
	kept := flight.Kept{Ledger: s.ledger(), Key: c.key}
	out := openAIOut{kept: kept, s: s, w: w, r: r, c: c, q: q, reply: openai.NewAnswer(q, hex.EncodeToString(id), came.Unix(), f.Calls())}
	defer func() {
		out.kept.Free()
		caller.Spend(out.reply.Cost())
	}()
	out.answer(f, m.Mapping)
}

// meant is the model that a request is for: all that the request becomes goes to the
// version that was chosen for it, which the mapping is of.
type meant struct {
	*openai.Mapping
	model string
	ask   rollout.Ask
}

// readOpenAI reads a body and finds its model; if something is wrong it answers.
func (s *Server) readOpenAI(w *openai.Writer, r *http.Request, caller *auth.Caller, c *inference, route openai.Route) (
	q *openai.Request, calls *openai.Calls, m meant, ok bool,
) {
	body, err := s.controlBody(w, r, c)
	if more := openai.Weight(body); err == nil && more > smallBody {
		if s.ledger().Take(ledger.In, more) {
			c.control += more
		} else {
			err = s.ledger().Refusal(ledger.In, more)
		}
	}
	if err != nil {
		s.replyError(w, w.Header(), jsonType, backend.AsError(err))
		return nil, nil, m, false
	}
	var bad *openai.Error
	large := len(body) >= heavyText
	if !s.inTurn(r, large, func() { q, bad = openai.Parse(route, body) }) {
		return nil, nil, m, false
	}
	if bad == nil {
		m.model, m.ask = s.openAIName(q.Model)
		if fail := caller.May(auth.Inference, m.model); fail != nil {
			auth.Note(s.engine.Refusals(), fail, from(r)...)
			s.replyError(w, w.Header(), jsonType, fail)
			return nil, nil, m, false
		}
		m.ask.Fields = fields(r.Header)
		bad = s.choose(r.Context(), q.Model, &m)
	}
	if bad == nil && !s.inTurn(r, large, func() { calls, bad = q.Calls(m.Mapping) }) {
		return nil, nil, m, false
	}
	if bad != nil {
		s.failOpenAI(w, bad)
	}
	return q, calls, m, bad == nil
}

// inTurn does f as heavily does; false says that the client has gone before.
func (s *Server) inTurn(r *http.Request, heavy bool, f func()) bool {
	return s.heavy.In(r.Context().Done(), heavy, f)
}

// failOpenAI answers with an error of the API's own.
func (s *Server) failOpenAI(w *openai.Writer, bad *openai.Error) {
	s.boundReply(w)
	w.Fail(bad)
}

// openAIName takes the name of a model apart: behind an '@' stands the label or the
// number of a version, unless there is a model of that whole name.
func (s *Server) openAIName(name string) (model string, ask rollout.Ask) { return s.engine.Named(name) }

// choose chooses the version for a request, and finds what that is to the API. A model
// that is not loaded yet has no rules to choose by: then it is chosen once it is.
func (s *Server) choose(ctx context.Context, name string, m *meant) (bad *openai.Error) {
	m.ask = s.engine.Settle(m.model, m.ask)
	chosen := m.ask.Chosen
	m.Mapping, bad = s.offered(ctx, name, m.model, m.ask)
	if m.ask = s.engine.Settle(m.model, m.ask); bad == nil && m.ask.Chosen != chosen {
		m.Mapping, bad = s.offered(ctx, name, m.model, m.ask)
	}
	return bad
}

// offered returns what a model, which the client calls name, is to the API that is ready,
// or can be loaded.
func (s *Server) offered(ctx context.Context, name, model string, ask rollout.Ask) (*openai.Mapping, *openai.Error) {
	version, err := s.engine.Version(model, ask)
	var cfg *modelconfig.Config
	if err == nil {
		cfg, _, err = s.engine.Describe(ctx, model, version)
	}
	if err != nil {
		if fail := backend.AsError(err); fail.Code != backend.NotFound && fail.Code != backend.InvalidArg {
			return nil, openai.Fault(fail)
		}
		return nil, openai.NoModel(name)
	}
	m, bad := openai.Map(cfg)
	if bad == nil && !m.Offered() {
		bad = openai.NoModel(name)
	}
	return m, bad
}

// openAIModels lists the models, or one.
func (s *Server) openAIModels(w *openai.Writer, r *http.Request, caller *auth.Caller, t target) {
	h := w.Header()
	h["Content-Type"] = jsonType
	created := s.started.Unix()
	if t.endpoint == openAIModel {
		model, ask := s.openAIName(t.name)
		if _, bad := s.offered(r.Context(), t.name, model, ask); bad != nil {
			s.failOpenAI(w, bad)
			return
		}
		s.write(w, h, http.StatusOK, openai.AppendModel(nil, t.name, created))
		return
	}
	s.write(w, h, http.StatusOK, openai.AppendModels(nil, s.described(caller), created))
}

// openAIOut is the sending side of a reply.
type openAIOut struct {
	s      *Server
	w      *openai.Writer
	r      *http.Request
	c      *inference
	q      *openai.Request
	reply  *openai.Answer
	buffer []byte
	begun  bool
	kept   flight.Kept
}

// answer makes the reply of what comes, and sends it.
func (o *openAIOut) answer(f *flight.Flight, m *openai.Mapping) {
	for open := f.Calls(); open > 0; {
		it, ok := f.Next()
		switch {
		case !ok:
			return
		case it.Fail != nil:
			o.fail(it.Fail)
			return
		case it.Resp == nil:
			open--
			if !o.add(o.reply.End(o.take(), it.Call), 0, open == 0) {
				return
			}
			continue
		}
		p, bad := m.Read(it.Resp)
		it.Resp.Release()
		if bad != nil {
			o.failWith(bad)
			return
		}
		events, more := o.reply.Add(o.take(), it.Call, &p), f.Waiting(it.Call)
		if o.reply.Stopped(it.Call) {
			f.Stop(it.Call)
			open--
			events, more = o.reply.End(events, it.Call), open == 0
		}
		if !o.add(events, p.Bytes, more) {
			return
		}
	}
	o.close()
}

// take returns memory for events: what a stream begins with, before the first.
func (o *openAIOut) take() []byte {
	if b := o.buffer[:0]; o.begun {
		return b
	}
	return o.reply.Open(o.buffer[:0])
}

// add counts what the reply keeps, and sends the events of a stream, at once unless
// more follow. It says whether to go on.
func (o *openAIOut) add(events []byte, kept int, more bool) bool {
	if o.q.Stream {
		o.buffer = events
	}
	if o.q.Keeps() {
		if fail := o.kept.Add(kept); fail != nil {
			o.fail(fail)
			return false
		}
	}
	return len(events) == 0 || o.send(events, more)
}

// send writes events.
func (o *openAIOut) send(events []byte, more bool) bool {
	if fail := o.s.hold(o.w, o.r, o.c, len(events)); fail != nil {
		o.fail(fail)
		return false
	}
	if !o.begun {
		h := o.w.Header()
		h["Content-Type"], h["Cache-Control"] = eventType, noCache
		o.begun = true
	}
	err := o.s.transmit(o.w, o.c, events, nil)
	if err == nil && !more {
		err = flush(o.w)
	}
	o.c.out.Close()
	if cap(o.buffer) > keepScratch {
		o.buffer = nil
	}
	return err == nil
}

func (o *openAIOut) fail(err *backend.Error) {
	if !o.begun {
		o.s.replyError(o.w, o.w.Header(), jsonType, err)
		return
	}
	o.failWith(openai.Fault(err))
}

// failWith answers with an error, or ends the stream with its event.
func (o *openAIOut) failWith(bad *openai.Error) {
	if !o.begun {
		o.s.failOpenAI(o.w, bad)
		return
	}
	if o.s.transmit(o.w, o.c, o.reply.Fail(nil, bad), nil) == nil {
		_ = flush(o.w) // a client that is gone needs no answer
	}
}

// close sends the end.
func (o *openAIOut) close() {
	var body []byte
	var bad *openai.Error
	if !o.s.inTurn(o.r, !o.q.Stream && o.kept.Large(), func() { body, bad = o.reply.Close(o.take()) }) {
		return
	}
	if !o.q.Stream {
		o.kept.Free() // what counts from here on is the text that is sent
	}
	switch {
	case bad != nil:
		o.failWith(bad)
	case o.q.Stream:
		o.send(body, false)
	default:
		if fail := o.s.hold(o.w, o.r, o.c, len(body)); fail != nil {
			o.fail(fail)
			return
		}
		o.s.finish(o.w, o.w.Header(), o.c, http.StatusOK, body)
	}
}
