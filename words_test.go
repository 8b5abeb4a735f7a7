package neso_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// TestServersSpeakInTheirOwnWords: of two servers in one process, one of a command
// and one of a program, each calls settings as its operator does: in what it answers,
// logs and measures, and in what its backends say.
func TestServersSpeakInTheirOwnWords(t *testing.T) {
	repo := repository(t, map[string]string{"id": identityConfig, "none": `backend: "refuses"`})
	type told struct {
		server *neso.Server
		log    bytes.Buffer
		prefix string
	}
	all := []*told{{prefix: "--"}, {prefix: ""}}
	for _, x := range all {
		x.server = &neso.Server{
			ModelRepositories: []string{repo}, OptionPrefix: x.prefix, MaxQueuedBytes: 8, KeepGoing: true,
			BackendSettings: map[string]map[string]string{"unheard": {"of": "1"}}, Logger: slog.New(slog.NewTextHandler(&x.log, nil)),
		}
		start(t, x.server, backend.Driver{
			Name: "refuses",
			Open: func(_ context.Context, _ backend.Host, s backend.Settings) (backend.Backend, error) {
				return nil, backend.Errorf(backend.Unsupported, "see '%s'", s.Option("backend-directory"))
			},
		})
	}
	ask := func(x *told, method, path string) string {
		w := httptest.NewRecorder()
		x.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		return w.Body.String()
	}
	// By turns, so that neither disturbs the other.
	for range 2 {
		for _, x := range all {
			_, err := x.server.Infer(t.Context(), neso.Request{Model: "id", Inputs: []tensor.Tensor{floats("X", 1, 2, 3)}})
			if err == nil {
				t.Fatal("12 bytes were taken by a server that holds 8")
			}
			var metrics bytes.Buffer
			if err := x.server.WriteMetrics(&metrics); err != nil {
				t.Fatal(err)
			}
			reason := ""
			for _, m := range x.server.Models() {
				reason += m.Reason
			}
			for _, c := range []struct{ where, text, want string }{
				{"an answer", err.Error(), "(" + x.prefix + "max-queued-bytes)"},
				{"an answer over HTTP", ask(x, http.MethodPost, "/v2/repository/bind"), "'" + x.prefix + "allow-bind=true'"},
				{"the index", reason, "'" + x.prefix + "backend-directory'"},
				{"the log", x.log.String(), `msg="` + x.prefix + "backend-config names"},
				{"metrics", metrics.String(), "interrupted by " + x.prefix + "instance-hang-timeout"},
			} {
				if !strings.Contains(c.text, c.want) {
					t.Errorf("with the prefix %q %s does not say %s:\n%s", x.prefix, c.where, c.want, c.text)
				}
			}
		}
	}
	if err := (&neso.Server{OptionPrefix: "--"}).Start(t.Context()); err == nil || err.Error() != "--model-repository must be specified" {
		t.Errorf("got %v", err)
	}
}
