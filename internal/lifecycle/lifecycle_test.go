package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/repository"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

const (
	echoConfig = nesotest.EchoConfig
	echoJSON   = nesotest.EchoJSON
	boundJSON  = nesotest.BoundJSON
)

var ensembleConfig = nesotest.EnsembleConfig

// setup is a manager to be.
type setup struct {
	Options
	repositories []string
	startup      []string
	faulty       bool // not all of them load
}

// of is a manager of a repository that begins with the models of startup.
func of(top string, startup ...string) setup {
	return setup{Options: Options{LoadSettings: LoadSettings{LoadThreads: 4}}, repositories: []string{top}, startup: startup}
}

// manage returns a manager, whose Close is the caller's.
func manage(t *testing.T, s setup, echoes ...*nesotest.Echo) *Manager {
	t.Helper()
	for _, b := range echoes {
		s.Backends = append(s.Backends, b.Driver())
	}
	temp := t.TempDir()
	repo, err := repository.Open(repository.Options{Settings: repository.Settings{TempDir: temp}, Paths: s.repositories})
	if err != nil {
		t.Fatal(err)
	}
	s.Repository = repo
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	pool := memory.New(memory.Options{})
	way := &steps{}
	s.Allocator, s.Steps = pool, way
	m := New(s.Options)
	way.m = m
	t.Cleanup(func() {
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("directories left behind: %v", left)
		}
	})
	return m
}

// start returns a manager that has loaded its first models and that the test's end
// closes.
func start(t *testing.T, s setup, echoes ...*nesotest.Echo) *Manager {
	t.Helper()
	m := manage(t, s, echoes...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		for _, b := range echoes {
			if n := b.Alive(); n != 0 {
				t.Errorf("backend %s: %d backends, models or instances left open", b.Name, n)
			}
		}
	})
	if err := reason.All(m.LoadAll(t.Context(), s.startup)); (err != nil) != s.faulty {
		t.Fatal(err)
	}
	return m
}

// steps is the way of ensembles to the models of their steps.
type steps struct{ m *Manager }

func (s *steps) Pin(name string, version int64) (ensemble.Target, error) {
	if v := s.m.Pin(name, version); v != nil {
		return v, nil
	}
	return nil, s.m.Explain(name, version)
}

func (s *steps) Holding(string, ensemble.Target, backend.CorrelationID) ensemble.Target { return nil }

func (s *steps) Infer(r *infer.Request) error {
	err := r.Owner.(*model.Model).Infer(r)
	if err != nil {
		r.Discard()
	}
	return err
}

func (s *steps) Ready(name string, version int64) error {
	v := s.m.Find(name, version)
	if v == nil {
		return s.m.Explain(name, version)
	}
	_, err := s.m.Ready(name, version, v)
	return err
}

func (s *steps) Allocator(name string, version int64) tensor.Allocator {
	if v := s.m.Find(name, version); v != nil {
		return v.Allocator()
	}
	return nil
}

func (s *steps) Labels(name string, version int64, output string) []string {
	if v := s.m.Find(name, version); v != nil {
		return v.Labels(output)
	}
	return nil
}

// ask sends one request and returns by which version it was served, with the
// answer's error.
func ask(m *Manager, name string, version int64, shape ...int64) (int64, error) {
	v := m.Pin(name, version)
	if v == nil {
		return 0, m.Explain(name, version)
	}
	if shape == nil {
		shape = []int64{2}
	}
	sink := infer.NewSingle()
	r := infer.New(sink, func(*infer.Request) { v.Unpin() })
	r.Ctx, r.Owner, r.ModelName, r.ModelVersion = context.Background(), v, v.Config().Name, v.Version()
	r.Inputs = []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: shape, Data: make([]byte, 8)}}
	r.Times.Start = backend.Now()
	served := r.ModelVersion
	if err := v.Infer(r); err != nil {
		r.Discard()
		return served, err
	}
	resp, failed := sink.Wait()
	if failed != nil {
		return served, failed
	}
	defer resp.Release()
	if len(resp.Outputs) != 1 || len(resp.Outputs[0].Data) != 8 {
		return served, fmt.Errorf("unexpected outputs %v", resp.Outputs)
	}
	return served, nil
}

func wantServed(t *testing.T, m *Manager, name string, version, want int64) {
	t.Helper()
	if got, err := ask(m, name, version); err != nil || got != want {
		t.Errorf("%s version %d: served by %d, %v; want %d", name, version, got, err, want)
	}
}

// pinned returns why there is no version to pin, or nil.
func pinned(m *Manager, name string, version int64) error {
	if v := m.Pin(name, version); v != nil {
		v.Unpin()
		return nil
	}
	return m.Explain(name, version)
}

func mustLoad(t *testing.T, m *Manager, r Request) {
	t.Helper()
	if err := m.Load(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func mustUnload(t *testing.T, m *Manager, name string) {
	t.Helper()
	if err := m.Unload(name, false); err != nil {
		t.Fatal(err)
	}
	settle(t, m)
}

func wantError(t *testing.T, err error, code backend.Code, text string) {
	t.Helper()
	var e *backend.Error
	if !errors.As(err, &e) || e.Code != code || e.Message != text {
		t.Errorf("got %v\nwant %v: %s", err, code, text)
		if e != nil {
			t.Errorf("code %v", e.Code)
		}
	}
}

// index lists what is known of all models, and the others of the repositories by
// their names.
func index(t *testing.T, m *Manager) string {
	t.Helper()
	known := map[string]bool{}
	var lines []string
	for _, v := range m.Versions("") {
		known[v.Key] = true
		version := ""
		if v.Version > 0 {
			version = fmt.Sprint(v.Version)
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s %s", v.Name, version, v.State, v.Reason), " ")+"\n")
	}
	stored, err := m.o.Repository.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stored {
		if !known[s.Name] {
			lines = append(lines, s.Name+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func wantIndex(t *testing.T, m *Manager, want string) {
	t.Helper()
	if d := cmp.Diff(index(t, m), want); d != "" {
		t.Errorf("index: got -, want +\n%s", d)
	}
}

// settle waits until no version is loading or unloading.
func settle(t *testing.T, m *Manager) {
	t.Helper()
	for strings.Contains(index(t, m), "LOADING") {
		select {
		case <-t.Context().Done():
			t.Fatal("not settled")
		case <-time.After(time.Millisecond):
		}
	}
}
