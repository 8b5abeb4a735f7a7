package httpapi

import (
	"net/http"
	"strconv"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
)

// health answers the three readiness questions. The replies are what probes
// look at: a status and, where it helps, a reason.
func (s *Server) health(w http.ResponseWriter, r *http.Request, t target, version int64) {
	h := w.Header()
	if t.endpoint == serverReady && verbose(r) {
		s.readiness(w, h)
		return
	}
	h["Content-Type"] = textType
	status, text := http.StatusOK, ""
	switch {
	case t.endpoint == modelReady:
		if s.engine.ModelReady(t.name, version) != nil {
			status, text = http.StatusBadRequest, "Model version not ready"
		}
	case s.engine.State() == engine.Failed:
		status, text = http.StatusBadRequest, s.engine.Live().Error()
	case s.engine.Live() != nil:
		status, text = http.StatusServiceUnavailable, s.engine.Live().Error()
	case t.endpoint == serverReady && s.engine.Ready() != nil:
		status = http.StatusBadRequest
	}
	switch {
	case text != "":
		s.replyText(w, h, status, text)
	case jsonwire.AskedFor(r.Header["Accept"]):
		h["Content-Type"] = jsonType
		s.write(w, h, status, jsonwire.EncodeHealth(t.endpoint == serverLive, status == http.StatusOK, t.name))
	default:
		s.write(w, h, status, nil)
	}
}

// verbose reports whether the reasons are asked for, too.
func verbose(r *http.Request) bool { return r.URL.RawQuery != "" && r.URL.Query().Has("verbose") }

// readiness answers for the server and each model, with reasons. The status is
// the one that the question has without `verbose`.
func (s *Server) readiness(w http.ResponseWriter, h http.Header) {
	r := s.engine.Readiness()
	status := http.StatusOK
	switch {
	case r.State == engine.Failed.String():
		status = http.StatusBadRequest
	case r.State == engine.Exiting.String() || s.engine.Live() != nil:
		status = http.StatusServiceUnavailable
	case r.Err != nil:
		status = http.StatusBadRequest
	}
	reply := jsonwire.Readiness{Ready: status == http.StatusOK, State: r.State, Models: make([]jsonwire.ModelReadiness, len(r.Models))}
	if r.Err != nil {
		reply.Reason = r.Err.Error()
	}
	for i, m := range r.Models {
		reply.Models[i] = jsonwire.ModelReadiness{Name: m.Name, State: m.State, Ready: m.Ready, Reason: m.Reason}
		if m.Version != 0 {
			reply.Models[i].Version = strconv.FormatInt(m.Version, 10)
		}
	}
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	s.write(w, h, status, jsonwire.EncodeReadiness(&reply))
}

var noStore = []string{"no-store"}
