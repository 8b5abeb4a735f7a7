package httpapi

import (
	"net/http"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/httpapi/cloudform"
)

const (
	vertexMIME = "application/vnd.vertex-ai-triton.binary+json"
	// vertexRedirect names another endpoint than inference on the default model.
	vertexRedirect = "X-Vertex-Ai-Triton-Redirect"
)

// VertexOptions configure the form that Google Vertex AI's containers have.
type VertexOptions struct {
	// PredictRoute and HealthRoute are the paths (AIP_PREDICT_ROUTE,
	// AIP_HEALTH_ROUTE).
	PredictRoute, HealthRoute string
	// Model answers predictions; "" means the only one there is.
	Model string
	// Late says that models may come after the start: what is missing then is
	// looked for again with each prediction.
	Late bool
	// Metrics answers the redirection to "metrics"; nil refuses.
	Metrics http.Handler
}

// Vertex is the front end in the cloud's form.
type Vertex struct {
	s *Server
	o VertexOptions
	// model answers predictions. It is the model that the options name, or the only
	// model, once that is known.
	model atomic.Pointer[string]
}

// NewVertex returns the cloud's form of s.
func NewVertex(s *Server, o VertexOptions) (*Vertex, error) {
	if o.PredictRoute == "" {
		return nil, backend.Errorf(backend.InvalidArg, "AIP_PREDICT_ROUTE is not defined for Vertex AI endpoint")
	}
	if o.HealthRoute == "" {
		return nil, backend.Errorf(backend.InvalidArg, "AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint")
	}
	v := &Vertex{s: s, o: o}
	v.model.Store(&v.o.Model)
	return v, nil
}

// CheckModel finds the model that answers predictions, once models are loaded.
func (v *Vertex) CheckModel() error {
	if v.o.Model != "" {
		if !v.o.Late && v.s.engine.ModelReady(v.o.Model, -1) != nil {
			return backend.Errorf(backend.InvalidArg, "Expect the default model '%s' is loaded", v.o.Model)
		}
		return nil
	}
	name, err := v.only()
	if err == nil {
		v.model.Store(&name)
	} else if v.o.Late {
		return nil
	}
	return err
}

// only returns the name of the only model there is.
func (v *Vertex) only() (string, error) {
	entries, err := v.s.engine.Index(true)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name] = true
	}
	if len(names) != 1 {
		return "",
			backend.Errorf(backend.InvalidArg, "Expect the model repository contains only a single model if default model is not specified")
	}
	return entries[0].Name, nil
}

// ServeHTTP answers one request.
func (v *Vertex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Date"] = v.s.clock.date()
	var want string
	switch r.URL.EscapedPath() {
	case v.o.HealthRoute:
		want = http.MethodGet
	case v.o.PredictRoute:
		want = http.MethodPost
	default:
		v.s.drain(w, r)
		v.s.replyEmpty(w, http.StatusBadRequest)
		return
	}
	if r.Method != want {
		v.s.drain(w, r)
		v.s.replyText(w, h, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	if want == http.MethodGet {
		v.s.serve(w, r, target{endpoint: serverReady})
		return
	}
	v.predict(w, r)
}

func (v *Vertex) predict(w http.ResponseWriter, r *http.Request) {
	t := target{endpoint: modelInfer, name: *v.model.Load()}
	if to := r.Header.Get(vertexRedirect); to == "metrics" && v.o.Metrics != nil {
		v.s.drain(w, r)
		r = r.Clone(r.Context())
		r.Method, r.URL.Path, r.URL.RawPath = http.MethodGet, "/metrics", ""
		v.o.Metrics.ServeHTTP(w, r)
		return
	} else if to != "" {
		t = route("/" + to)
	} else if t.name == "" {
		name, err := v.only()
		if err != nil {
			v.s.drain(w, r)
			v.s.replyError(w, w.Header(), jsonType, backend.AsError(err))
			return
		}
		t.name = name
	}
	switch t.endpoint {
	case modelInfer:
		if err := cloudform.TakeHeaderSize(r, vertexMIME); err != nil {
			v.s.drain(w, r)
			v.s.replyError(w, w.Header(), jsonType, backend.AsError(err))
			return
		}
		v.s.serve(w, r, t)
	case serverMetadata, serverLive, serverReady, modelReady, modelMetadata, modelConfig, modelStats, modelExplain, allStats,
		repositoryIndex, memoryStatus:
		v.s.serve(w, r, t)
	case repositoryLoad, repositoryUnload, repositoryBind, memoryRegister, memoryUnregister:
		v.s.drain(w, r)
		v.s.replyText(w, w.Header(), http.StatusForbidden, "This API is not reachable through the Vertex AI endpoint")
	default:
		v.s.drain(w, r)
		v.s.replyEmpty(w, http.StatusBadRequest)
	}
}
