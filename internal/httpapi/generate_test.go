package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// talker is a decoupled model whose requests are answered by say.
func talker(say func(r *backend.Request)) *nesotest.Echo {
	return &nesotest.Echo{OnExecute: func(_ context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
		if cfg.Name != "talk" {
			return false, nil
		}
		for _, r := range batch.Requests {
			say(r)
		}
		return true, nil
	}}
}

// words is a response with n values.
func words(n int) *backend.Response {
	return &backend.Response{Outputs: []tensor.Tensor{{
		Name: "OUT", Datatype: tensor.FP32, Shape: tensor.Shape{int64(n)},
		Data: make([]byte, 4*n),
	}}}
}

func failed(text string) *backend.Response {
	return &backend.Response{Err: backend.Errorf(backend.NotFound, "%s", text)}
}

func TestResponsesOfADecoupledModel(t *testing.T) {
	const one, two, oops = `{"OUT":0.0,"model_name":"talk","model_version":"1"}`, `{"OUT":[0.0,0.0],"model_name":"talk","model_version":"1"}`,
		`{"error":"oops"}`
	many := `{"error":"` + "generate expects model to produce exactly 1 response, use generate stream for model that generates various " +
		"number of responses" + `"}`
	tests := []struct {
		name      string
		say       func(r *backend.Request)
		status    int
		events    []string
		whole     string
		wholeCode int
	}{
		{"none", func(r *backend.Request) { _ = r.Respond(nil, true) }, 200, nil, many, 400},
		{"one", func(r *backend.Request) { _ = r.Respond(words(1), false); _ = r.Respond(nil, true) }, 200, []string{one}, one, 200},
		{"one that is final", func(r *backend.Request) { _ = r.Respond(words(1), true) }, 200, []string{one}, one, 200},
		{"without outputs", func(r *backend.Request) {
			_ = r.Respond(&backend.Response{}, true)
		}, 200, []string{`{"model_name":"talk","model_version":"1"}`}, `{"model_name":"talk","model_version":"1"}`, 200},
		{"two", func(r *backend.Request) { _ = r.Respond(words(1), false); _ = r.Respond(words(2), true) }, 200, []string{one, two}, many, 400},
		{"an error", func(r *backend.Request) { _ = r.Respond(failed("oops"), true) }, 400, []string{oops}, oops, 400},
		{"an error first", func(r *backend.Request) {
			_ = r.Respond(failed("oops"), false)
			_ = r.Respond(words(1), true)
		}, 400, []string{oops, one}, many, 400},
		{"an error amid", func(r *backend.Request) {
			_ = r.Respond(words(1), false)
			_ = r.Respond(failed("oops"), false)
			_ = r.Respond(words(2), true)
		}, 200, []string{one, oops, two}, many, 400},
		{
			"parameters", func(r *backend.Request) {
				resp := words(1)
				resp.Parameters = []backend.Parameter{
					backend.String("text", "t\n"), backend.Bool("A", true), backend.Int("id", 3),
					backend.Double("z", 0.5),
				}
				_ = r.Respond(resp, true)
			}, 200,
			[]string{`{"A":true,"OUT":0.0,"id":3,"model_name":"talk","model_version":"1","text":"t\n","z":0.5}`},
			`{"A":true,"OUT":0.0,"id":3,"model_name":"talk","model_version":"1","text":"t\n","z":0.5}`, 200,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, serve(t, talker(tt.say), nil))
			r := c.do("POST", "/v2/models/talk/generate_stream", nil, []byte(`{"IN":1}`))
			var want strings.Builder
			for _, e := range tt.events {
				want.WriteString("data: " + e + "\n\n")
			}
			if r.StatusCode != tt.status || string(r.body) != want.String() || r.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" ||
				r.TransferEncoding[0] != "chunked" {
				t.Errorf("stream: %d %v\n got %q\nwant %q", r.StatusCode, r.Header, r.body, want.String())
			}
			r = c.do("POST", "/v2/models/talk/generate", nil, []byte(`{"IN":1}`))
			if r.StatusCode != tt.wholeCode || string(r.body) != tt.whole || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("generate: %d %v\n got %q\nwant %q", r.StatusCode, r.Header, r.body, tt.whole)
			}
		})
	}
}

func TestEventsLeaveAtOnce(t *testing.T) {
	next := make(chan struct{})
	c := dial(t, serve(t, talker(func(r *backend.Request) {
		for range 3 {
			_ = r.Respond(words(1), false)
			<-next // the client has it
		}
		_ = r.Respond(nil, true)
	}), nil))
	c.send("POST", "/v2/models/talk/generate_stream", nil, []byte(`{"IN":1}`))
	r, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for range 3 {
		for lines.Scan() && lines.Text() == "" {
		}
		if !strings.HasPrefix(lines.Text(), `data: {"OUT":0.0`) {
			t.Fatalf("got %q", lines.Text())
		}
		next <- struct{}{}
	}
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("after the last event: %q", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// TestSecondResponseEndsGenerate checks that the client need not wait for a
// model that goes on talking, and that the model is told.
func TestSecondResponseEndsGenerate(t *testing.T) {
	answered := make(chan struct{})
	c := dial(t, serve(t, talker(func(r *backend.Request) {
		_ = r.Respond(words(1), false)
		_ = r.Respond(words(1), false)
		<-r.Ctx.Done()
		<-answered
		_ = r.Respond(nil, true)
	}), nil))
	r := c.do("POST", "/v2/models/talk/generate", nil, []byte(`{"IN":1}`))
	close(answered)
	if r.StatusCode != 400 || !strings.Contains(string(r.body), "exactly 1 response") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := c.do("GET", "/v2/health/live", nil, nil); r.StatusCode != 200 {
		t.Errorf("the connection is of no use any more: %d", r.StatusCode)
	}
}

// stuckClient takes nothing until it goes away.
type stuckClient struct {
	header http.Header
	gone   chan struct{}
}

func (c *stuckClient) Header() http.Header { return c.header }
func (c *stuckClient) WriteHeader(int)     {}
func (c *stuckClient) Write([]byte) (int, error) {
	<-c.gone
	return 0, io.ErrClosedPipe
}

// TestSlowAndVanishedClient checks that a client which does not read makes the
// model wait after a few responses, and that one which goes away cancels its
// request.
func TestSlowAndVanishedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent int
		var refused error
		released := &counter{}
		echo := talker(func(r *backend.Request) {
			for refused == nil && sent < 1000 {
				resp := words(1)
				resp.Outputs[0].Buffer = tensor.NewBuffer(resp.Outputs[0].Data, released)
				refused = r.Respond(resp, false)
				sent++
			}
			_ = r.Respond(nil, true)
		})
		echo.Name = "echo"
		e, err := engine.New(engine.Options{
			Repositories: []string{nesotest.Tree(t, models)},
			Backends:     []backend.Driver{identity.New(), echo.Driver()},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "POST", "/v2/models/talk/generate_stream", strings.NewReader(`{"IN":1}`))
		w := &stuckClient{http.Header{}, make(chan struct{})}
		done := make(chan struct{})
		go func() { defer close(done); s.ServeHTTP(w, r) }()
		synctest.Wait()
		if sent > streamRoom+1 || refused != nil {
			t.Errorf("%d responses taken from the model, %v", sent, refused)
		}
		leave()
		close(w.gone)
		<-done
		synctest.Wait()
		if refused == nil || sent > streamRoom+3 {
			t.Errorf("after the client went: %d responses, %v", sent, refused)
		}
		if n := released.n.Load(); n != int64(sent) {
			t.Errorf("%d of %d outputs released", n, sent)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// counter counts released buffers.
type counter struct{ n atomic.Int64 }

func (c *counter) ReleaseBuffer(*tensor.Buffer) { c.n.Add(1) }
