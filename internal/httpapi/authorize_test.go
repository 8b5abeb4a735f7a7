package httpapi

import (
	"testing"

	"github.com/nesoserve/neso/internal/auth"
)

// TestEveryEndpointIsThoughtOf keeps a new endpoint from being open to all or
// closed to all by accident.
func TestEveryEndpointIsThoughtOf(t *testing.T) {
	for e := notFound + 1; e < endpointCount; e++ {
		if operations[e] == auth.Unsaid {
			t.Errorf("endpoint %d: operations says nothing about it", e)
		}
	}
}
