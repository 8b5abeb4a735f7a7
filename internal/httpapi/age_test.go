package httpapi

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/engine"
)

// Replies ask for another connection from the age on, a tenth earlier or later.
func TestConnectionAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{o: Options{MaxConnectionAge: 10 * time.Second}, engine: &engine.Engine{}}
		reply := func(ctx context.Context) string {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/nothing", nil))
			return w.Header().Get("Connection")
		}
		ends := map[time.Time]bool{}
		for range 20 {
			ctx := s.age()(t.Context(), nil)
			ends[ctx.Value(endKey{}).(time.Time)] = true
			if got := reply(ctx); got != "" {
				t.Errorf("before its age: %q", got)
			}
			time.Sleep(8900 * time.Millisecond)
			if got := reply(ctx); got != "" {
				t.Errorf("after 8.9 s: %q", got)
			}
			time.Sleep(2200 * time.Millisecond)
			if got := reply(ctx); got != "close" {
				t.Errorf("after 11.1 s: %q", got)
			}
		}
		if len(ends) < 15 {
			t.Errorf("20 connections have %d ages", len(ends))
		}
		if s.o.MaxConnectionAge = 0; s.age() != nil {
			t.Error("an age without a limit")
		}
	})
}

// The last answer of an old connection says so, and ends it: also where net/http
// does not serve it.
func TestAgedConnectionsEnd(t *testing.T) {
	addr := serve(t, nil, func(o *Options, _ *engine.Options) { o.MaxConnectionAge = time.Nanosecond })
	for _, path := range []string{"/v2/models/fp32/infer", "/v2/repository/index"} {
		body, header := binaryBody(4)
		if path != "/v2/models/fp32/infer" {
			body = []byte{}
		}
		c := dial(t, addr)
		if r := c.do("POST", path, []string{header}, body); r.StatusCode != 200 || !r.Close {
			t.Errorf("%s: %d, close %v", path, r.StatusCode, r.Close)
		}
		if _, err := c.br.ReadByte(); err != io.EOF {
			t.Errorf("%s: still open: %v", path, err)
		}
	}
}

// The Date header follows a wall clock that is set back and forth.
func TestDateFollowsTheClock(t *testing.T) {
	var c clock
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, jump := range []time.Duration{0, time.Millisecond, time.Hour, -48 * time.Hour, 0, 100 * 365 * 24 * time.Hour} {
		at := noon.Add(jump)
		if got, want := c.at(at)[0], at.Format("Mon, 02 Jan 2006 15:04:05 GMT"); got != want {
			t.Errorf("at %v: %s, want %s", at, got, want)
		}
	}
}
