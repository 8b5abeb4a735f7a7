package httpapi

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Replies ask for another connection from the age on, a tenth earlier or later.
func TestConnectionAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{o: Options{MaxConnectionAge: 10 * time.Second}}
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
				t.Errorf("young: %q", got)
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
