package hostmetrics

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// metricHost is a server that counts the families that are let go of.
type metricHost struct {
	backend.Host
	released int
}

func (h *metricHost) MetricFamily(backend.MetricFamily) (func(), error) {
	return func() { h.released++ }, nil
}

// TestFamilyLimit: a worker that never lets go of a family does not fill the
// server's memory, and may hold others once it does.
func TestFamilyLimit(t *testing.T) {
	host := &metricHost{}
	var m Metrics
	m.Init()
	family := &wire.MetricBody{Op: "family", Name: "c", Kind: "counter"}
	for range familyLimit {
		if _, err := m.Do(host, family); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Do(host, family); err == nil || backend.AsError(err).Code != backend.Unavailable ||
		!strings.Contains(err.Error(), "10000 metric families") {
		t.Errorf("one more: %v", err)
	}
	if _, err := m.Do(host, &wire.MetricBody{Op: "release", Family: 7}); err != nil {
		t.Error(err)
	}
	if _, err := m.Do(host, family); err != nil {
		t.Errorf("after a release: %v", err)
	}
	m.Close()
	if n := host.released; n != familyLimit+1 {
		t.Errorf("%v families were released, want %d", n, familyLimit+1)
	}
	if _, err := m.Do(host, family); err == nil {
		t.Error("a family is made for a worker that has ended")
	}
}
