//go:build unix

package worker

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// TestFamilyLimit: a worker that never lets go of a family does not fill the
// server's memory, and may hold others once it does.
func TestFamilyLimit(t *testing.T) {
	host := &fakeHost{metrics: map[string]float64{}}
	var m hostMetrics
	m.init()
	family := &metricBody{Op: "family", Name: "c", Kind: "counter"}
	for range familyLimit {
		if _, err := m.do(host, family); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.do(host, family); err == nil || backend.AsError(err).Code != backend.Unavailable || !strings.Contains(err.Error(), "10000 metric families") {
		t.Errorf("one more: %v", err)
	}
	if _, err := m.do(host, &metricBody{Op: "release", Family: 7}); err != nil {
		t.Error(err)
	}
	if _, err := m.do(host, family); err != nil {
		t.Errorf("after a release: %v", err)
	}
	m.close()
	if n := host.metrics["families released"]; n != familyLimit+1 {
		t.Errorf("%v families were released, want %d", n, familyLimit+1)
	}
	if _, err := m.do(host, family); err == nil {
		t.Error("a family is made for a worker that has ended")
	}
}
