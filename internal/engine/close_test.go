package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestStateMoves(t *testing.T) {
	allowed := map[State][]State{Initializing: {Ready, Failed, Exiting}, Ready: {Exiting}, Failed: {Exiting}, Exiting: {}}
	for from := range states {
		want := map[State]bool{}
		for _, to := range allowed[from] {
			want[to] = true
		}
		for to := range states {
			e := &Engine{}
			e.state.Store(uint32(from))
			got := e.move(to)
			if got != want[to] || got && e.State() != to || !got && e.State() != from {
				t.Errorf("%s to %s: %v, now %s", from, to, got, e.State())
			}
		}
	}
}

func TestCloseServesWhatIsInFlight(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	host := make(chan backend.Host, 1)
	echo := &nesotest.Echo{
		Name:   "echo",
		OnOpen: func(h backend.Host, _ backend.Settings) error { host <- h; return nil },
		OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
			if cfg.Name == "a" {
				entered <- struct{}{}
				<-release
			}
			return false, nil
		},
	}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	e := server(t, explicit(top, "*"), echo)
	answer := make(chan error, 1)
	go func() {
		_, err := ask(e, "a", -1)
		answer <- err
	}()
	<-entered
	closed := make(chan error, 2)
	for range 2 { // twice, at the same time
		go func() { closed <- e.Close(context.Background()) }()
	}
	for e.State() != Exiting {
		time.Sleep(time.Millisecond)
	}
	wantError(t, e.Live(), backend.Unavailable, "Server exiting")
	wantError(t, e.Ready(), backend.Unavailable, "Server exiting")
	_, err := e.Resolve(t.Context(), "a", -1, 0)
	wantError(t, err, backend.Unavailable, "Server not ready")
	wantError(t, e.Load(t.Context(), "a", "", nil), backend.Unavailable, "Server not ready")
	wantError(t, e.Unload(t.Context(), "a", false), backend.Unavailable, "Server not ready")
	_, _, err = e.Model("a", -1)
	wantError(t, err, backend.Unavailable, "Server not ready")
	// What is in flight may still call other models.
	if err := (<-host).Infer(call("b", &recorder{done: make(chan struct{})})); err != nil {
		t.Error("a model's own request was refused:", err)
	}
	select {
	case err := <-closed:
		t.Fatal("closed with a request in flight:", err)
	default:
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error("the request in flight failed:", err)
	}
	for range 2 {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

func TestCloseGivesUpAtItsDeadline(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo"}
	entered := make(chan struct{}, 1)
	echo.OnExecute = func(ctx context.Context, _ backend.Config, _ *backend.Batch) (bool, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return false, ctx.Err()
	}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e := server(t, explicit(top, "a"), echo)
	answer := make(chan error, 1)
	go func() {
		_, err := ask(e, "a", -1)
		answer <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); !isTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
	if err := <-answer; err == nil {
		t.Error("the request that was cut off has succeeded")
	}
}

func TestStartGivenUp(t *testing.T) {
	entered := make(chan struct{}, 1)
	echo := &nesotest.Echo{Name: "echo", OnLoad: func(ctx context.Context, _ backend.Config) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e, err := New(Options{Repositories: []string{top}, Backends: []backend.Driver{echo.Driver()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	<-entered
	cancel()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if e.State() != Exiting || echo.Alive() != 0 {
		t.Error(e.State(), echo.Alive())
	}
}

// A backend that does not heed the end of its load does not keep the server
// from stopping.
func TestStartGivenUpThoughALoadIsDeaf(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		echo := &nesotest.Echo{Name: "echo", OnLoad: func(context.Context, backend.Config) error {
			<-release
			return nil
		}}
		e, err := New(Options{Repositories: []string{top}, Backends: []backend.Driver{echo.Driver()}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Start(ctx) }()
		synctest.Wait()
		cancel()
		select {
		case err := <-done:
			if err == nil {
				t.Error("no error")
			}
		case <-time.After(time.Minute):
			t.Error("Start does not return")
		}
		close(release)
		synctest.Wait()
		if echo.Alive() != 0 {
			t.Error(echo.Alive(), "things are open")
		}
	})
}

// TestDeafExecution: a version whose backend ignores interruption is still
// unloading while it works and closed when it comes back; the end of the server
// waits for it in bounded time, and closes all else.
func TestDeafExecution(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	for _, comesBack := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			echo := &nesotest.Echo{Name: "echo", OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
				<-release
				return false, nil
			}}
			e, err := New(Options{
				Repositories: []string{top}, ControlMode: "explicit", StartupModels: []string{"a", "b"},
				Backends: []backend.Driver{echo.Driver()},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			answered := make(chan struct{})
			go func() {
				_, _ = ask(e, "a", -1)
				close(answered)
			}()
			synctest.Wait()
			if err := e.Unload(t.Context(), "a", false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			wantIndex(t, e, "a 1 UNLOADING\nb 1 READY\n")
			if comesBack {
				close(release)
				<-answered
				synctest.Wait()
				wantIndex(t, e, "a 1 UNAVAILABLE unloaded\nb 1 READY\n")
				if n := echo.Models.Load(); n != 1 {
					t.Errorf("%d models are open", n)
				}
			}
			end, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			if err := e.Close(end); (err == nil) != comesBack {
				t.Errorf("Close: %v", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("Close took %v", took)
			}
			if !comesBack {
				if n := echo.Models.Load(); n != 1 {
					t.Errorf("%d models are open, want the deaf one", n)
				}
				close(release)
				<-answered
			}
		})
	}
}

// TestHammer loads, unloads, asks and lists at the same time; what must hold is
// checked by the race detector, by the leak checks, and by the errors: a
// request is served or told that the model is not there.
func TestHammer(t *testing.T) {
	echo := &nesotest.Echo{Name: "echo"}
	top := nesotest.Tree(t, map[string]string{
		"a/config.pbtxt": echoConfig, "a/1/": "",
		"b/config.pbtxt": echoConfig + "version_policy: { all {} }", "b/1/": "", "b/2/": "",
	})
	e := server(t, explicit(top, "*"), echo)
	var wg sync.WaitGroup
	var served atomic.Int64
	for i := range 4 {
		name := []string{"a", "b"}[i%2]
		wg.Go(func() {
			for j := range 60 {
				switch j % 3 {
				case 0:
					_ = e.Load(t.Context(), name, echoJSON, nil) // busy, perhaps
				case 1:
					_ = e.Load(t.Context(), name, "", nil)
				default:
					_ = e.Unload(t.Context(), name, j%2 == 0)
				}
				_, _ = e.Index(j%2 == 0)
				_ = e.Ready()
			}
		})
		wg.Go(func() {
			for range 400 {
				switch _, err := ask(e, name, -1); {
				case err == nil:
					served.Add(1)
				case backend.AsError(err).Code != backend.NotFound:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustLoad(t, e, "a", "", nil)
	wantServed(t, e, "a", -1, 1)
	t.Logf("%d served", served.Load())
}
