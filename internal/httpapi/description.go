package httpapi

import (
	"net/http"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/openai"
	"github.com/nesoserve/neso/internal/openapi"
)

// description is the OpenAPI document of the models that the caller sees, or, with
// ?model=NAME, of that one.
func (s *Server) description(r *http.Request, caller *auth.Caller) ([]byte, error) {
	var models []*modelconfig.Config
	if only := r.URL.Query()["model"]; len(only) > 0 {
		for _, name := range only {
			if _, err := s.enter(r, auth.Inspect, name); err != nil {
				return nil, err
			}
			cfg, _, err := s.engine.Model(name, -1)
			if err != nil {
				return nil, err
			}
			models = append(models, cfg)
		}
	} else {
		models = s.described(caller)
	}
	var doc []byte
	fault := s.heavily(r.Context().Done(), len(models) > describedAtOnce, func() *backend.Error {
		var err error
		about := openapi.Server{Version: engine.InterfaceVersion, Keys: s.o.Guard != nil}
		if s.o.OpenAI {
			about.OpenAI = openai.Offer(models)
		}
		doc, err = openapi.Document(about, models)
		return backend.AsError(err)
	})
	if fault != nil {
		return nil, fault
	}
	return doc, nil
}

// describedAtOnce is how many models are described without waiting for a turn: a
// model takes some 30 µs.
const describedAtOnce = 50

// described are the ready models that the caller sees.
func (s *Server) described(caller *auth.Caller) []*modelconfig.Config {
	entries, err := s.engine.Index(true)
	if err != nil {
		return nil // nothing is ready yet
	}
	var models []*modelconfig.Config
	for i := range entries {
		if i > 0 && entries[i].Name == entries[i-1].Name || !caller.Sees(entries[i].Name) {
			continue // another version
		}
		if cfg, _, err := s.engine.Model(entries[i].Name, -1); err == nil {
			models = append(models, cfg)
		}
	}
	return models
}

// Offered says which ready models that the caller sees OpenAI's routes are for.
func (s *Server) Offered(caller *auth.Caller) *openapi.OpenAI {
	return openai.Offer(s.described(caller))
}

// viewer answers with a page that shows the description.
func (s *Server) viewer(w http.ResponseWriter, r *http.Request) {
	page, _ := openapi.Viewer(r.URL.Path)
	h := w.Header()
	h["Content-Type"] = []string{page.ContentType}
	h["Content-Security-Policy"] = []string{openapi.SecurityPolicy}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cache-Control"] = noCache
	s.write(w, h, http.StatusOK, page.Body)
}
