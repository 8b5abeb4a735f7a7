package neso_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/nesoserve/neso"
)

func TestRateLimit(t *testing.T) {
	bad := &neso.Server{NoRepository: true, RateLimit: "fast", Logger: slog.New(slog.DiscardHandler)}
	if err := bad.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `invalid argument for rate-limit: got "fast"`) {
		t.Errorf("got %v", err)
	}
	s := &neso.Server{
		NoRepository: true, RateLimit: "Execution_Count", Logger: slog.New(slog.DiscardHandler),
		RateLimitResources: []neso.RateLimitResource{{Name: "R", Count: 1, Device: neso.EveryDevice}},
	}
	start(t, s)
	m := doubleModel
	m.Config = json.RawMessage(`{"instance_group": [{"rate_limiter": {"resources": [{"name": "R", "count": 2}]}}]}`)
	if err := s.Bind(m, double); err == nil || !strings.Contains(err.Error(),
		`Resource count for "R" is limited to 1 which will prevent scheduling`) {
		t.Errorf("got %v", err)
	}
	m.Config = json.RawMessage(`{"instance_group": [{"rate_limiter": {"resources": [{"name": "R", "count": 1}]}}]}`)
	for range 2 { // the second swaps the first one
		if err := s.Bind(m, double); err != nil {
			t.Fatal(err)
		}
	}
}
