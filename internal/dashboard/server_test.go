package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

const config = `backend: "identity"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }
`

// serve starts a server with so many models, and its dashboard.
func serve(t testing.TB, models int, change func(*Options)) (*Server, *httptest.Server) {
	t.Helper()
	files := map[string]string{}
	for i := range models {
		name := fmt.Sprintf("m%d", i)
		files[name+"/config.pbtxt"], files[name+"/1/"] = config, ""
	}
	log, err := logging.Open(logging.DefaultSettings(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		Repositories: []string{nesotest.Tree(t, files)}, Backends: []backend.Driver{identity.New()}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{API: api, Engine: e, Log: log, Version: "1"}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Beside(http.NotFoundHandler()))
	t.Cleanup(func() {
		s.Close()
		server.Close()
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, server
}

// ask sends a request as the page does, changed by the headers.
func ask(t testing.TB, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, "1")
	for i := 0; i+1 < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text), reply.Header
}

func TestFiles(t *testing.T) {
	_, server := serve(t, 1, nil)
	for path, kind := range map[string]string{"/": "text/html", "/main.js": "text/javascript", "/style.css": "text/css"} {
		status, body, h := ask(t, "GET", server.URL+Root+path, "", header, "")
		if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) || body == "" {
			t.Errorf("%s: %d %v", path, status, h)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": securityPolicy,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if status, body, _ := ask(t, "GET", server.URL+Root+path, "", "If-None-Match", h.Get("Etag")); status != 304 || body != "" {
			t.Errorf("%s: %d for its own tag, want 304", path, status)
		}
	}
	for path, want := range map[string]int{"": 301, "/nothing": 404, "/../dashboard/assets/main.js": 404, "x": 404} {
		if status, _, _ := ask(t, "GET", server.URL+Root+path, ""); status != want {
			t.Errorf("%q: %d, want %d", path, status, want)
		}
	}
	if status, _, _ := ask(t, "POST", server.URL+Root+"/", ""); status != 405 {
		t.Errorf("POST: %d, want 405", status)
	}
}

func TestOnlyThePageIsAnswered(t *testing.T) {
	_, server := serve(t, 1, nil)
	for _, path := range []string{"/about", "/feed", "/model?name=m0", "/api/v2", "/api/v2/models/m0/infer"} {
		for name, headers := range map[string][]string{
			"without the header": {header, ""},
			"of another site":    {"Origin", "http://evil.example"},
			"without an origin":  {"Sec-Fetch-Site", "cross-site"},
			"for another name":   {"Host", "evil.example"},
		} {
			method := "GET"
			if strings.HasSuffix(path, "infer") {
				method = "POST"
			}
			if status, body, _ := ask(t, method, server.URL+Root+path, "", headers...); status != 403 {
				t.Errorf("%s, %s: %d %s, want 403", path, name, status, body)
			}
		}
	}
	if status, body, _ := ask(t, "GET", server.URL+Root+"/api/v2", "", "Origin", server.URL, "Sec-Fetch-Site", "same-origin"); status != 200 {
		t.Errorf("of the page: %d %s, want 200", status, body)
	}
}

// TestReadOnly: other machines do not use models by way of the metrics.
func TestReadOnly(t *testing.T) {
	s, _ := serve(t, 1, nil)
	for _, x := range []struct {
		from, method, path string
		open               bool
		want               int
	}{
		{"192.0.2.1:1", "POST", "/api/v2/models/m0/infer", false, 403},
		{"192.0.2.1:1", "POST", "/api/v2/logging", false, 403},
		{"192.0.2.1:1", "POST", "/api/v1/chat/completions", false, 403},
		{"192.0.2.1:1", "POST", "/api/v2/repository/index", false, 200},
		{"192.0.2.1:1", "GET", "/api/v2/models/m0/config", false, 200},
		{"192.0.2.1:1", "POST", "/api/v2/models/m0/infer", true, 400},
		{"127.0.0.1:1", "POST", "/api/v2/models/m0/infer", false, 400},
		{"[::1]:1", "POST", "/api/v2/models/m0/infer", false, 400},
		{"@", "POST", "/api/v2/models/m0/infer", false, 400},
	} {
		s.o.Open = x.open
		r := httptest.NewRequestWithContext(t.Context(), x.method, Root+x.path, strings.NewReader("{}"))
		r.Host, r.RemoteAddr = "192.0.2.9:8002", x.from
		r.Header.Set(header, "1")
		w := httptest.NewRecorder()
		s.Beside(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != x.want {
			t.Errorf("%s %s from %s, open %v: %d %s, want %d", x.method, x.path, x.from, x.open, w.Code, w.Body, x.want)
		}
	}
}

// line is a line of the feed, as far as tests read it.
type line struct {
	Whole    bool
	End      bool
	Models   []struct{ Name, State string }
	Failures []struct{ Model, Error string }
	Log      []struct{ Text string }
}

// follow opens a feed.
func follow(t testing.TB, server *httptest.Server) (next func() line, end func()) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+Root+"/feed", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, "1")
	reply, err := server.Client().Do(r) //nolint:bodyclose // by end
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(reply.Body)
	return func() line {
		t.Helper()
		text, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return l
	}, func() { _ = reply.Body.Close() }
}

func TestFeed(t *testing.T) {
	s, server := serve(t, 3, nil)
	s.o.Log.Logger().Info("a line")
	next, end := follow(t, server)
	defer end()
	first := next()
	if !first.Whole || len(first.Models) != 3 || first.Models[0].State != "READY" || len(first.Log) != 1 ||
		!strings.Contains(first.Log[0].Text, "a line") {
		t.Errorf("the first line: %+v", first)
	}
	api := server.URL + Root + "/api/v2/models/m1/infer"
	if status, text, _ := ask(t, "POST", api, `{"inputs":[{"name":"IN","datatype":"INT32","shape":[1],"data":[7]}]}`); status != 200 {
		t.Fatal(text)
	}
	if status, text, _ := ask(t, "POST", api, `{"inputs":[]}`); status != 400 {
		t.Fatal(text)
	}
	var moved, failed bool
	for range 5 {
		l := next()
		moved = moved || len(l.Models) == 1 && l.Models[0].Name == "m1"
		failed = failed || len(l.Failures) == 1 && l.Failures[0].Model == "m1"
	}
	if !moved || !failed {
		t.Errorf("the request was seen: %v, the failure: %v", moved, failed)
	}
	if len(s.o.Engine.Recent().Slow()) == 0 {
		t.Error("the slowest request was not kept")
	}
	s.Close()
	if status, _, _ := ask(t, "GET", server.URL+Root+"/feed", ""); status != 503 {
		t.Errorf("a feed of a server that ends: %d, want 503", status)
	}
}

// TestViewersAreBounded: one computation for all of them, and none without.
func TestViewersAreBounded(t *testing.T) {
	s, server := serve(t, 1, nil)
	var all []*viewer
	for range mostViewers {
		all = append(all, s.sampler.join())
	}
	if status, text, h := ask(t, "GET", server.URL+Root+"/feed", ""); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", status, text)
	}
	for _, v := range all {
		if f := <-v.frames; !f.whole {
			t.Error("the first frame is not whole")
		}
		s.sampler.leave(v)
		s.sampler.leave(v)
	}
	s.sampler.running.Wait() // ends with the last viewer
	again := s.sampler.join()
	if f := <-again.frames; !f.whole || len(f.pieces) != 1 {
		t.Errorf("after a pause: %+v", f)
	}
	s.sampler.leave(again)
}

func TestDetail(t *testing.T) {
	_, server := serve(t, 1, nil)
	status, text, _ := ask(t, "GET", server.URL+Root+"/model?name=m0", "")
	var all []detail
	if err := json.Unmarshal([]byte(text), &all); err != nil || status != 200 || len(all) != 1 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	d := all[0]
	if d.Given != config || d.File != "config.pbtxt" || !strings.Contains(d.Config, "instance_group") || len(d.Instances) != 1 {
		t.Errorf("got %+v", d)
	}
	for _, name := range []string{"", "nobody"} {
		if status, _, _ := ask(t, "GET", server.URL+Root+"/model?name="+name, ""); status != 404 {
			t.Errorf("%q: %d, want 404", name, status)
		}
	}
}

// BenchmarkLook is what a second of looking costs with 500 models that all work.
func BenchmarkLook(b *testing.B) {
	s, _ := serve(b, 500, nil)
	s.sampler.versions = map[key]*followed{}
	standings := s.sampler.standings()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		for i := range standings {
			standings[i].Model.Stats().Batch(4, 1000, 2000, 3000)
		}
		now = now.Add(time.Second)
		s.sampler.take(now)
	}
}

// Models for chats are told to the page where the server has OpenAI's routes.
func TestChats(t *testing.T) {
	_, server := serve(t, 1, nil)
	if _, body, _ := ask(t, "GET", server.URL+Root+"/chats", ""); body != "null" {
		t.Errorf("without the routes: %s", body)
	}
	if status, body, _ := ask(t, "GET", server.URL+Root+"/chats", "", header, ""); status != http.StatusForbidden {
		t.Errorf("to another site's page: %d, %s", status, body)
	}
	if status, _, _ := ask(t, "POST", server.URL+Root+"/api/v1/chat/completions", "{}"); status != http.StatusNotFound {
		t.Errorf("the route: %d", status)
	}
}
