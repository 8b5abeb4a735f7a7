// Package librarytest owns what the tests of backends over C libraries share: a
// server without other models ([Open]), a model directory ([Config]), a loaded
// model ([Start]) and a client that keeps what it is answered ([Answers]).
package librarytest

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/tensor"
)

// Interpreter is that of the virtual environment that `make setup` makes, else
// the one that Python models have.
func Interpreter() (string, error) {
	for up := ".."; len(up) < 24; up += "/.." {
		if path, err := filepath.Abs(up + "/.venv/bin/python"); err == nil {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return python.DefaultInterpreter("", "python")
}

// Named is Interpreter for a driver, which says what messages call the setting.
func Named(string) (string, error) { return Interpreter() }

// Config puts content as a file of the name into the version directory of a
// model, and returns a configuration without tensors, with one instance on the
// CPU.
func Config(t testing.TB, name string, content []byte) backend.Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	version := filepath.Join(dir, "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
	return backend.Config{
		Name: "model", Version: 1, Directory: dir, VersionDirectory: version, Filename: name, Parameters: map[string]string{},
		Instances: []backend.InstanceConfig{{Name: "model_0_0", Kind: "KIND_CPU"}},
	}
}

// host is a server without other models.
type host struct {
	backend.Host
	memory *memory.Pool
	log    *slog.Logger
}

func (h *host) Allocator() tensor.Allocator { return h.memory }
func (h *host) Logger() *slog.Logger        { return h.log }

// Open opens the backend for one test, at whose end no buffer may be left. What
// it logs goes to log.
func Open(t testing.TB, driver backend.Driver, values map[string]string, log io.Writer) backend.Backend {
	t.Helper()
	h := &host{memory: memory.New(memory.Options{}), log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	b, err := driver.Open(t.Context(), h, backend.Settings{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if leaks := h.memory.Leaks(); len(leaks) > 0 {
			t.Errorf("%d buffers leaked, the first:\n%s", len(leaks), leaks[0])
		}
		h.memory.Close()
	})
	return b
}

// Start loads a model and makes its first instance.
func Start(t testing.TB, b backend.Backend, cfg backend.Config) backend.Instance {
	t.Helper()
	m, err := b.Load(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.NewInstance(t.Context(), cfg.Instances[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), m.Close() })
	return in
}

// Answers collects what a request is answered with.
type Answers struct {
	// Got are the responses; the test releases them.
	Got []*backend.Response
	// Gone says that the client is: the request counts as cancelled.
	Gone bool
}

// Respond implements backend.Responder.
func (a *Answers) Respond(r *backend.Response, _ bool) error { a.Got = append(a.Got, r); return nil }

// Cancelled implements backend.Responder.
func (a *Answers) Cancelled() bool { return a.Gone }
