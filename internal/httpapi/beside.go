package httpapi

import (
	"net/http"

	"github.com/nesoserve/neso/internal/auth"
)

// What handlers of other listeners have of this one: its keys, and its look at where
// a request comes from.

// Guarded is h for callers that may do op.
func (s *Server) Guarded(op auth.Operation, h http.Handler) http.Handler {
	if s.o.Guard == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.Admit(w, r, op); ok {
			h.ServeHTTP(w, r)
		}
	})
}

// Admit finds the caller of r, and whether the caller may do op. If not, it answers.
func (s *Server) Admit(w http.ResponseWriter, r *http.Request, op auth.Operation) (*auth.Caller, bool) {
	caller, err := s.enter(r, op, "")
	if err != nil {
		s.drain(w, r)
		s.replyError(w, w.Header(), jsonType, err)
		return nil, false
	}
	return caller, true
}

// Foreign returns why r, which a page of this server is to have sent, is not taken,
// or "": a page of another site has sent it, or it is for a server of another name.
func (s *Server) Foreign(r *http.Request) string {
	reason, why := s.foreign(r)
	if why != "" {
		s.refused(r, reason, why)
	}
	return why
}
