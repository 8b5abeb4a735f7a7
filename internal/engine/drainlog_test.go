package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// messages collects those of a log.
type messages struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *messages) Enabled(context.Context, slog.Level) bool { return true }

func (l *messages) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Message)
	return nil
}

// from returns what came since the line.
func (l *messages) from(line string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.all, "\n")
	_, rest, _ := strings.Cut(text, line+"\n")
	return rest
}

// A server that stops says each second what it still waits for, in Triton's
// words, and by model.
func TestDrainSaysWhatIsInFlight(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		echo := &nesotest.Echo{Name: "echo", OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
			<-release[cfg.Name]
			return false, nil
		}}
		log := &messages{}
		e, err := New(Options{Repositories: []string{top}, Backends: []backend.Driver{echo.Driver()}, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "a", "b"} {
			go func() { _, _ = ask(e, name, -1) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- e.Close(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		close(release["b"])
		time.Sleep(time.Second)
		close(release["a"])
		if err := <-closed; err != nil {
			t.Error(err)
		}
		want := `Timeout 30: Found 2 model versions that have in-flight inferences
Model 'a' (version 1) has 2 in-flight inferences
Model 'b' (version 1) has 1 in-flight inferences
Timeout 29: Found 2 model versions that have in-flight inferences
Model 'a' (version 1) has 2 in-flight inferences
Model 'b' (version 1) has 1 in-flight inferences
Timeout 28: Found 1 model versions that have in-flight inferences
Model 'a' (version 1) has 2 in-flight inferences
All models are stopped, unloading models
`
		if got := log.from("Waiting for in-flight requests to complete."); !strings.HasPrefix(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
