package neso_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nesoserve/neso"
)

// TestClientsChangeTheLogOfAProgram: a program can hand over its log as the command
// does. Clients see its settings and change them, and it obeys.
func TestClientsChangeTheLogOfAProgram(t *testing.T) {
	var lines bytes.Buffer // the log writes under a lock, and is read once the server has ended
	log, err := neso.OpenLog(neso.LogSettings{Output: &lines, NoInfo: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &neso.Server{HTTP: neso.HTTP{Address: "127.0.0.1:0"}, NoRepository: true, Log: log}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(body string) string {
		t.Helper()
		resp, err := client.Post("http://"+s.Addresses()["http"]+"/v2/logging", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, string(text), err)
		}
		return string(text)
	}
	if got := ask("{}"); !strings.Contains(got, `"log_info":false`) || !strings.Contains(got, `"log_format":"default"`) {
		t.Errorf("the settings are not those of the log: %s", got)
	}
	log.Logger().Info("not shown")
	ask(`{"log_info": true, "log_format": "ISO8601"}`)
	log.Logger().Info("shown")
	if got := log.Format(); got != "ISO8601" {
		t.Errorf("format %q", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if got := lines.String(); strings.Contains(got, "not shown") || !strings.Contains(got, `"shown"`) ||
		strings.Contains(got, "Started HTTPService") {
		t.Errorf("the log is %s", got)
	}
}

// TestALogThatCannotBe: a wrong setting is an error of OpenLog.
func TestALogThatCannotBe(t *testing.T) {
	for what, s := range map[string]neso.LogSettings{
		"log_format":              {Format: "xml"},
		"failed to open log file": {File: t.TempDir()},
		"log_verbose_level":       {Verbose: -1},
	} {
		if _, err := neso.OpenLog(s); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error about %s", err, what)
		}
	}
}
