package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/refusals"
)

const apiKeyHeader = "X-Api-Key"

// operations says what the endpoints mean for keys.
var operations = [endpointCount]auth.Operation{
	serverMetadata:      auth.Inspect,
	serverLive:          auth.Probe,
	serverReady:         auth.Probe,
	modelReady:          auth.Inspect,
	modelMetadata:       auth.Inspect,
	modelConfig:         auth.Inspect,
	modelStats:          auth.Observe,
	modelExplain:        auth.Observe,
	modelRollout:        auth.Observe,
	modelInfer:          auth.Inference,
	modelGenerate:       auth.Inference,
	modelGenerateStream: auth.Inference,
	allStats:            auth.Observe,
	logSettings:         auth.Observe,
	traceSettings:       auth.Observe,
	repositoryIndex:     auth.Observe,
	repositoryLoad:      auth.Control,
	repositoryUnload:    auth.Control,
	repositoryBind:      auth.Control,
	memoryStatus:        auth.Observe,
	memoryRegister:      auth.Control,
	memoryUnregister:    auth.Control,
	apiDescription:      auth.Inspect,
	apiViewer:           auth.Probe,
	openAIModels:        auth.Inspect,
	openAIModel:         auth.Inspect,
	openAICompletions:   auth.Inference,
	openAIChat:          auth.Inference,
	openAIEmbeddings:    auth.Inference,
	openAIResponses:     auth.Inference,
}

// operation says what r means: what reads with GET changes something with POST.
func operation(r *http.Request, t target) auth.Operation {
	if e := &endpoints[t.endpoint]; e.get && e.post && r.Method == http.MethodPost {
		return auth.Control
	}
	if t.endpoint == serverReady && verbose(r) {
		return auth.Observe // it names the models
	}
	return operations[t.endpoint]
}

// authorize finds the caller of r, and whether the caller may do what t means
// here. If not, it answers. It reads nothing of the body.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, t target) (*auth.Caller, bool) {
	op := operation(r, t)
	if op.Changes() && endpoints[t.endpoint].category != SharedMemory { // which says no in the peer's words
		if reason, why := s.foreign(r); why != "" {
			s.refused(r, reason, why)
			s.drain(w, r)
			s.replyError(w, w.Header(), jsonType, s.refusal(why))
			return nil, false
		}
	}
	if s.o.Guard == nil && !s.o.ManagedElsewhere {
		return nil, true
	}
	model := t.name
	switch {
	case endpoints[t.endpoint].category == SharedMemory:
		model = "" // it is the name of a region
	case t.endpoint == openAIModel:
		model, _ = s.openAIName(model) // keys name models, not their versions
	}
	caller, err := s.enter(r, op, model)
	if err == nil && s.o.ManagedElsewhere {
		switch {
		case op.Changes() && !t.admin:
			err = &backend.Error{Code: backend.PermissionDenied, Message: kserve.TextManagedElsewhere(s.o.Words)}
		case op == auth.Inference && t.admin:
			err = &backend.Error{Code: backend.PermissionDenied, Message: kserve.TextOnlyManaged(s.o.Words)}
		}
		if err != nil {
			s.refused(r, refusals.Listener, err.Message)
		}
	}
	if err != nil {
		s.drain(w, r)
		s.replyError(w, w.Header(), jsonType, err)
		return nil, false
	}
	return caller, true
}

// enter is the guard's look at r, noted if it says no.
func (s *Server) enter(r *http.Request, op auth.Operation, model string) (*auth.Caller, *backend.Error) {
	caller, err := s.o.Guard.Admit(first(r.Header["Authorization"]), first(r.Header[apiKeyHeader]), op, model)
	if err != nil {
		auth.Note(s.engine.Refusals(), err, from(r)...)
	}
	return caller, err
}

// refused notes that r is not served.
func (s *Server) refused(r *http.Request, reason refusals.Reason, why string) {
	s.engine.Refusals().Refused(reason, why, from(r)...)
}

// from says where r comes from and what it asks for. What stands behind the path
// may be secret.
func from(r *http.Request) []slog.Attr {
	return []slog.Attr{
		slog.String("client", r.RemoteAddr), slog.String("protocol", "http"), slog.String("method", r.Method),
		slog.String("path", r.URL.EscapedPath()),
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Admin is s for administrators: what changes the server is served here, and
// inference is not.
func (s *Server) Admin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(w, r, true) })
}
