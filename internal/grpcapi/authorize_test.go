package grpcapi

import (
	"slices"
	"testing"

	"github.com/nesoserve/neso/internal/auth"
)

// TestEveryCallIsThoughtOf keeps a new call from being open to all or closed to
// all by accident.
func TestEveryCallIsThoughtOf(t *testing.T) {
	s := &Server{}
	for _, d := range []struct{ methods []string }{{names(s)}, {[]string{"Check", "Watch", "List"}}} {
		for _, name := range d.methods {
			if operations[name] == auth.Unsaid {
				t.Errorf("%s: operations says nothing about it", name)
			}
		}
	}
}

func names(s *Server) (all []string) {
	for _, m := range slices.Concat(serviceDesc(s).Methods, bindingDesc(s).Methods, rolloutDesc(s).Methods) {
		all = append(all, m.MethodName)
	}
	for _, m := range serviceDesc(s).Streams {
		all = append(all, m.StreamName)
	}
	return all
}
