package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/httpapi/transport"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/metrics"
	"github.com/nesoserve/neso/internal/openai"
	"github.com/nesoserve/neso/internal/refusals"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/setting"
)

// Options configure the front end. Only Engine is needed.
type Options struct {
	Engine *engine.Engine
	// Words are what messages call settings of the server.
	Words setting.Words
	// MaxInputSize is --http-max-input-size: the bound of JSON, of an input given
	// as JSON, of a raw input and of a decompressed body. 0 means 64 MiB.
	MaxInputSize int64
	// HeaderForwardPattern is --http-header-forward-pattern: headers whose name
	// it matches become request parameters. Empty means none.
	HeaderForwardPattern string
	// Restricted holds, for a category, the header that a request must bring.
	Restricted map[Category]Restriction
	// Guard asks for keys; nil asks for none.
	Guard *auth.Guard
	// TrustedHosts are patterns (of path.Match) of names by which proxies, and pages
	// in browsers, know the server; see origin.go.
	TrustedHosts []string
	// ManagedElsewhere refuses what changes the server, which Admin serves then.
	ManagedElsewhere bool
	// GRPCAt says where gRPC is served, as in "port 8001", to those who ask for HTTP/2
	// here; empty for nowhere.
	GRPCAt string
	// Join hands out a place where another process can bind models; nil refuses.
	Join func() (socket, token string, err error)
	// Customs are the metrics that backends publish, for load reports; nil means
	// none.
	Customs *metrics.Customs
	// Log is what the logging endpoint shows and changes; without it the
	// endpoint is not supported.
	Log *logging.Log
	// Logger takes an access line for each inference at verbose level 1.
	Logger *slog.Logger
	// ReadTimeout bounds the arrival of a request, IdleTimeout the pause between
	// two. Large bodies and answers get more as they move, see ledger.Until, and may
	// stand still for ReadTimeout. 0 means a minute and ten minutes.
	ReadTimeout, IdleTimeout time.Duration
	// HeaderTimeout bounds the arrival of the headers; 0 leaves that to
	// ReadTimeout, which costs one timer less a request.
	HeaderTimeout time.Duration
	// NoDescription leaves out /openapi.json and /docs.
	NoDescription bool
	// OpenAI serves OpenAI's routes at /v1/.
	OpenAI bool
	// MaxConnectionAge is after how long a connection is asked to end, with its next
	// reply, give or take a tenth; 0 means never.
	MaxConnectionAge time.Duration
}

// Restriction is a header with the value it must have.
type Restriction struct{ Header, Value string }

// Server is the front end. It is an http.Handler; HTTPServer wraps it with the
// settings of a server of its own, Transport makes that a fast one.
type Server struct {
	o          Options
	engine     *engine.Engine
	forward    *regexp.Regexp
	restricted [endpointCount]*Restriction
	inferences sync.Pool
	heavy      lane.Lane
	clock      clock
	started    time.Time
}

const (
	defaultMaxInput    = 64 << 20
	defaultReadTimeout = time.Minute
	defaultIdleTimeout = 10 * time.Minute
	maxHeaderBytes     = 64 << 10
)

// New returns a front end. It starts nothing.
func New(o Options) (*Server, error) {
	if o.Engine == nil {
		return nil, errors.New("httpapi: no engine")
	}
	setDefault(&o.MaxInputSize, defaultMaxInput)
	setDefault(&o.ReadTimeout, defaultReadTimeout)
	setDefault(&o.IdleTimeout, defaultIdleTimeout)
	if o.Customs == nil {
		o.Customs = metrics.NewCustoms()
	}
	s := &Server{o: o, engine: o.Engine, started: time.Now()}
	if o.HeaderForwardPattern != "" {
		re, err := regexp.Compile("(?i)" + o.HeaderForwardPattern)
		if err != nil {
			return nil, err
		}
		s.forward = re
	}
	for _, pattern := range o.TrustedHosts {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("httpapi: %q is no pattern of host names: %w", pattern, err)
		}
	}
	for e := range endpoints {
		if r, ok := o.Restricted[endpoints[e].category]; ok && e != int(notFound) {
			s.restricted[e] = &r
		}
	}
	s.inferences.New, s.heavy = func() any { return newInference() }, o.Engine.Heavy()
	return s, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// OpenAI reports whether OpenAI's routes are served.
func (s *Server) OpenAI() bool { return s.o.OpenAI }

// HTTPServer returns a server for s with bounded headers and times. Its
// ReadTimeout covers a whole request; bodies lengthen it as they arrive, and it
// ends with the body, so that it does not bound the time of an inference.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.o.HeaderTimeout,
		ReadTimeout:       s.o.ReadTimeout,
		IdleTimeout:       s.o.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       s.connContext(),
		// Connection errors are the clients' and of no use in a log by default.
		ErrorLog: slog.NewLogLogger(s.handler(), slog.LevelDebug),
	}
}

// Transport returns a server for s that serves inference requests past net/http.
func (s *Server) Transport() *transport.Server {
	t := transport.New(s.HTTPServer(), func(path string) bool { return route(path).endpoint == modelInfer })
	t.Ledger = s.ledger()
	return t
}

func (s *Server) handler() slog.Handler {
	if s.o.Logger == nil {
		return slog.DiscardHandler
	}
	return s.o.Logger.Handler()
}

// about answers who looks at / to see what is here. There is nothing in the
// protocol, and the status says so.
const about = `{"error":"Not Found: this is Neso, an inference server with the interface of Triton (Open Inference protocol, KServe v2)",` +
	`"endpoints":["GET /v2","GET /v2/health/ready?verbose","POST /v2/repository/index","GET /v2/models/{model}","GET ` +
	`/v2/models/{model}/config","POST /v2/models/{model}/infer","GET /v2/models/stats","GET /openapi.json","GET /docs"],` +
	`"documentation":"https://github.com/nesoserve/neso/tree/main/docs/use/http.md"}`

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handle(w, r, false) }

// handle answers one request that came to the listener of the administrators, or
// to another one.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, admin bool) {
	h := w.Header()
	h["Date"] = s.clock.date()
	if s.engine.Parting() || s.o.MaxConnectionAge > 0 && aged(r.Context()) {
		h["Connection"] = closeConnection
	}
	t := route(r.URL.EscapedPath())
	if s.o.NoDescription && (t.endpoint == apiDescription || t.endpoint == apiViewer) {
		t = target{}
	}
	if t.endpoint == notFound && s.o.OpenAI {
		path := r.URL.EscapedPath()
		if t = routeOpenAI(path); strings.HasPrefix(path, openAIPrefix) {
			w = &openai.Writer{ResponseWriter: w}
		}
	}
	if t.endpoint == notFound {
		if r.Method == "PRI" { // HTTP/2's first words, which net/http lets through
			text := "this is the HTTP port, which speaks HTTP/1.1"
			if s.o.GRPCAt != "" {
				text += "; gRPC is served at " + s.o.GRPCAt
			}
			h["Connection"] = closeConnection
			s.replyText(w, h, http.StatusBadRequest, text)
			return
		}
		s.drain(w, r)
		if r.URL.Path == "/" && r.Method == http.MethodGet {
			h["Content-Type"] = jsonType
			s.write(w, h, http.StatusNotFound, []byte(about))
			return
		}
		s.replyText(w, h, http.StatusNotFound, "Not Found")
		return
	}
	if e := &endpoints[t.endpoint]; (!e.get || r.Method != http.MethodGet) && (!e.post || r.Method != http.MethodPost) {
		if s.allowed(w, r, t) {
			s.drain(w, r)
			s.replyText(w, h, http.StatusMethodNotAllowed, "Method Not Allowed")
		}
		return
	}
	t.admin = admin
	s.serve(w, r, t)
}

// allowed reports whether r brings what the endpoint's category asks for; if
// not it answers.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, t target) bool {
	if must := s.restricted[t.endpoint]; must != nil && r.Header.Get(must.Header) != must.Value {
		text := "This API is restricted, expecting header '" + must.Header + "'"
		s.refused(r, refusals.Restricted, text)
		s.drain(w, r)
		s.replyText(w, w.Header(), http.StatusForbidden, text)
		return false
	}
	return true
}

// serve answers a routed request, whatever its method.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, t target) {
	h := w.Header()
	if !s.allowed(w, r, t) {
		return
	}
	if t.endpoint == apiViewer { // it says nothing of this server, and is where a key is given
		s.viewer(w, r)
		return
	}
	caller, ok := s.authorize(w, r, t)
	if !ok {
		return
	}
	ask := rollout.Ask{Version: -1, Label: t.label}
	if t.label != "" && !s.engine.Labelled(t.name) {
		s.drain(w, r)
		s.replyText(w, h, http.StatusNotFound, "Not Found")
		return
	}
	if t.version != "" {
		var err error
		if ask.Version, err = strconv.ParseInt(t.version, 10, 64); err != nil {
			s.drain(w, r)
			s.replyText(w, h, http.StatusBadRequest, "failed to get model version from specified version string '"+t.version+
				"' (details: stol), version should be an integral value > 0")
			return
		}
	}
	switch t.endpoint {
	case modelInfer:
		ask.Fields = fields(r.Header)
		s.infer(w, r, caller, t.name, ask)
	case modelGenerate, modelGenerateStream:
		ask.Fields = fields(r.Header)
		s.generate(w, r, caller, t.name, ask, t.endpoint == modelGenerateStream)
	case openAIModels, openAIModel, openAICompletions, openAIChat, openAIEmbeddings, openAIResponses:
		s.openAI(w.(*openai.Writer), r, caller, t)
	default:
		version, err := s.engine.Version(t.name, ask)
		if err != nil && t.endpoint == modelReady {
			version, err = rollout.NoVersion, nil
		}
		if err != nil {
			s.drain(w, r)
			s.replyError(w, h, jsonType, backend.AsError(err))
			return
		}
		s.control(w, r, caller, t, version)
	}
}

// fields are the headers of a request as the rules for versions look at them.
type fields http.Header

// Field implements rollout.Fields.
func (f fields) Field(name string) string { return http.Header(f).Get(name) }

// control answers everything but inference.
func (s *Server) control(w http.ResponseWriter, r *http.Request, caller *auth.Caller, t target, version int64) {
	h := w.Header()
	switch t.endpoint {
	case serverLive, serverReady, modelReady:
		s.health(w, r, t, version)
		return
	default:
	}
	c := s.inferences.Get().(*inference)
	defer s.release(c)
	c.key = caller.Share()
	var body []byte
	if r.Method == http.MethodPost {
		var err error
		if body, err = s.controlBody(w, r, c); err != nil {
			s.replyError(w, h, jsonType, backend.AsError(err))
			return
		}
	}
	reply, err := s.answer(r, caller, t, version, body)
	if err != nil {
		s.replyError(w, h, jsonType, backend.AsError(err))
		return
	}
	h["Content-Type"] = jsonType
	if len(reply) <= joinLimit {
		s.write(w, h, http.StatusOK, reply)
	} else if err := s.hold(w, r, c, len(reply)); err != nil {
		s.replyError(w, h, jsonType, err)
	} else {
		s.writeParts(w, h, c, reply, nil, 0)
	}
}

// answer returns the JSON reply of a control request.
func (s *Server) answer(r *http.Request, caller *auth.Caller, t target, version int64, body []byte) ([]byte, error) {
	switch t.endpoint {
	case serverMetadata:
		return s.metadata(), nil
	case apiDescription:
		return s.description(r, caller)
	case modelMetadata:
		return s.modelMetadata(r.Context(), t.name, version)
	case modelConfig:
		return s.modelConfig(r.Context(), t.name, version)
	case modelStats:
		return s.statistics(caller, t.name, version)
	case modelExplain:
		return s.engine.Explain(t.name, version)
	case modelRollout:
		return s.rollout(r.Context(), t.name, body)
	case allStats:
		return s.statistics(caller, "", -1)
	case logSettings:
		return s.logging(body)
	case traceSettings:
		return s.trace(t.name, body)
	case repositoryIndex:
		return s.index(caller, body)
	case repositoryLoad:
		return nil, s.load(r.Context(), t, body)
	case repositoryUnload:
		return nil, s.unload(r.Context(), t, body)
	case repositoryBind:
		return s.join()
	default: // of shared memory
		return s.sharedMemory(r, t, body)
	}
}
