package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

// hung starts a server whose model "a" hangs in its first batch until release is
// closed, and ignores that it is interrupted.
func hung(t *testing.T, start func(*testing.T, Options, ...*nesotest.Echo) *Engine) (e *Engine, echo *nesotest.Echo,
	release chan struct{},
) {
	t.Helper()
	release = make(chan struct{})
	var batches atomic.Int64
	echo = &nesotest.Echo{Name: "echo", OnExecute: func(_ context.Context, cfg backend.Config, _ *backend.Batch) (bool, error) {
		if cfg.Name == "a" && batches.Add(1) == 1 {
			<-release
		}
		return false, nil
	}}
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": "", "b/config.pbtxt": echoConfig, "b/1/": ""})
	o := explicit(top, "*")
	o.HangTimeout = time.Second
	return start(t, o, echo), echo, release
}

// What is lost is the one request that hung, which gets an error; the model is
// not ready while its only instance is replaced, and serves again afterwards. Its
// unload ends when the backend comes back, and not before.
func TestHungModelRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, echo, release := hung(t, server)
		failed := make(chan error, 1)
		go func() {
			_, err := ask(e, "a", -1)
			failed <- err
		}()
		time.Sleep(800 * time.Millisecond)
		if r := e.Readiness(); r.Err != nil || !r.Models[0].Ready || !strings.Contains(r.Models[0].Reason, "no progress") {
			t.Errorf("after 0.8 s: %+v", r)
		}
		time.Sleep(time.Second)
		r := e.Readiness()
		if r.Err == nil || r.Models[0].Ready || !strings.Contains(r.Models[0].Reason, "1 of 1 instances hang") || !r.Models[1].Ready {
			t.Errorf("interrupted: %+v", r)
		}
		if _, err := ask(e, "b", -1); err != nil {
			t.Error(err)
		}
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "instance 'a_0' has made no progress for 1s") {
			t.Errorf("the hung request: %v", err)
		}
		time.Sleep(time.Second)
		if r := e.Readiness(); r.Err != nil || !r.Models[0].Ready || r.Models[0].Reason != "" {
			t.Errorf("replaced: %+v", r)
		}
		if _, err := ask(e, "a", -1); err != nil {
			t.Error(err)
		}

		if err := e.Unload(t.Context(), "a", false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if n := echo.Models.Load(); n != 2 {
			t.Errorf("%d models while a batch of one still runs, want 2", n)
		}
		close(release)
		synctest.Wait()
		if n := echo.Models.Load(); n != 1 {
			t.Errorf("%d models after it came back, want 1", n)
		}
	})
}

// A version that is being unloaded is still looked at: the request that hangs in
// it is answered, and the version goes, at the hang timeout and not when the drain
// gives up.
func TestHangWhileUnloading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, echo, release := hung(t, server)
		failed := make(chan error, 1)
		go func() {
			_, err := ask(e, "a", -1)
			failed <- err
		}()
		synctest.Wait()
		if err := e.Unload(t.Context(), "a", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		select {
		case err := <-failed:
			if err == nil || !strings.Contains(err.Error(), "instance 'a_0' has made no progress for 1s") {
				t.Errorf("the hung request: %v", err)
			}
		default:
			t.Error("the hung request waits for the drain to give up")
		}
		close(release)
		time.Sleep(time.Second)
		if n := echo.Models.Load(); n != 1 {
			t.Errorf("%d models after it came back, want 1", n)
		}
	})
}

// Neither the drain nor the unload of a stopping server waits for an execution
// that was abandoned.
func TestCloseDoesNotWaitForAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// What the abandoned batch holds stays open, which server() would not have.
		e, _, release := hung(t, func(t *testing.T, o Options, echoes ...*nesotest.Echo) *Engine {
			o.Backends = append(o.Backends, echoes[0].Driver())
			e, err := New(o)
			if err == nil {
				err = e.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return e
		})
		if _, err := ask(e, "a", -1); err == nil {
			t.Fatal("no error")
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
	})
}

func TestLeavingAndFaults(t *testing.T) {
	e := server(t, explicit(nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""}), "*"), &nesotest.Echo{Name: "echo"})
	e.SetFault("HTTPService", errors.New("connections are not accepted"))
	wantError(t, e.Ready(), backend.Unavailable, "HTTPService: connections are not accepted")
	e.SetFault("HTTPService", nil)
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
	e.Leave()
	wantError(t, e.Ready(), backend.Unavailable, "the server is about to stop")
	if err := e.Live(); err != nil {
		t.Error(err)
	}
	if _, err := ask(e, "a", -1); err != nil {
		t.Error(err)
	}
}
