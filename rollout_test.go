package neso_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// TestRolloutInTheProgram: the rules for the versions of a model, without any listener,
// and labels where a version is a number.
func TestRolloutInTheProgram(t *testing.T) {
	top := repository(t, map[string]string{
		"id": identityConfig + "version_policy: { all { } }\n", "id@odd": identityConfig, "plain": identityConfig,
	})
	if err := os.Mkdir(filepath.Join(top, "id", "2"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &neso.Server{ModelRepositories: []string{top}, ControlMode: "explicit", StartupModels: []string{"*"}}
	if _, err := s.Rollout("id"); !errors.Is(err, neso.ErrNotRunning) {
		t.Errorf("before the start: %v", err)
	}
	start(t, s)
	if err := s.SetRollout(t.Context(), "id", []byte("labels: {stable: 1, canary: 2}\nweights: {stable: 1}")); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"id", "id", "id@canary", "id@stable", "id@2", "id@odd"} {
		resp, err := s.Infer(t.Context(), neso.Request{Model: model, Inputs: []tensor.Tensor{floats("X", 1)}})
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		resp.Release()
	}
	text, err := s.Rollout("id")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Primary  string
		Versions []struct {
			Labels   []string
			Requests map[string]int
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	first, second := doc.Versions[0].Requests, doc.Versions[1].Requests
	if doc.Primary != "1" || first["weight"] != 2 || first["label"] != 1 || second["label"] != 1 || second["version"] != 1 {
		t.Errorf("got %s", text)
	}
	if err := s.ModelReady("id@canary", -1); err != nil {
		t.Error(err)
	}
	if text, err := s.ModelMetadata("id@canary", -1); err != nil || !strings.HasPrefix(string(text), `{"name":"id","versions":["2"]`) {
		t.Errorf("got %s, %v", text, err)
	}
	if err := s.Serves("id@canary", -1); err != nil {
		t.Error(err)
	}
	for model, want := range map[string]string{
		"id@gone":      "Request for unknown model: 'id' has no version with the label 'gone'",
		"plain@canary": "Request for unknown model: 'plain' has no version with the label 'canary'",
		"none@canary":  "Request for unknown model: 'none@canary' is not found",
	} {
		_, err := s.Infer(t.Context(), neso.Request{Model: model, Inputs: []tensor.Tensor{floats("X", 1)}})
		if e := backend.AsError(err); e == nil || e.Code != backend.NotFound || e.Message != want {
			t.Errorf("%s: got %v, want %s", model, err, want)
		}
	}
	if err := s.SetRollout(t.Context(), "id", []byte("labels: {stable: 7}")); backend.AsError(err).Code != backend.InvalidArg {
		t.Errorf("a version that is not loaded: %v", err)
	}
}
