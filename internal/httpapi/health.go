package httpapi

import "net/http"

// health answers the three readiness questions. The replies are what probes
// look at: a status and, where it helps, a reason.
func (s *Server) health(w http.ResponseWriter, t target, version int64) {
	h := w.Header()
	h["Content-Type"] = textType
	status, text := http.StatusOK, ""
	switch {
	case t.endpoint == modelReady:
		if s.engine.ModelReady(t.name, version) != nil {
			status, text = http.StatusBadRequest, "Model version not ready"
		}
	case s.engine.Live() != nil:
		status, text = http.StatusServiceUnavailable, "Server exiting"
	case t.endpoint == serverReady && s.engine.Ready() != nil:
		status = http.StatusBadRequest
	}
	if text != "" {
		replyText(w, h, status, text)
		return
	}
	write(w, h, status, nil)
}
