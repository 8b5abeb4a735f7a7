//go:build edge

package tracing

import (
	"strings"
	"testing"
)

func TestLeftOut(t *testing.T) {
	_, err := New(Config{Collector: &Collector{URL: "localhost:4318"}})
	if err == nil || !strings.Contains(err.Error(), "built without OpenTelemetry") {
		t.Errorf("got %v, want an error that names the build", err)
	}
}
