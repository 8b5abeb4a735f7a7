package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/client"
)

// TestQuery: what the client and the request say is in the URL of each call, beside what is there.
func TestQuery(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.RawQuery)
		http.Error(w, `{"error":"no"}`, http.StatusNotFound)
	}))
	defer srv.Close()
	c := open(t, client.New(srv.URL))
	c.Query = url.Values{"a": {"1 2"}}
	q := one()
	q.Query = url.Values{"b": {"3"}}
	_, _ = c.Infer(t.Context(), q)
	_, _ = c.Readiness(t.Context())
	_, _ = c.Ready(t.Context())
	if want := []string{"b=3&a=1+2", "verbose&a=1+2", "a=1+2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBefore: credentials that change with each attempt, over both.
func TestBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	text := fmt.Sprintf(`{"keys": [{"name": "k", "sha256": "%x", "scopes": ["infer", "read"]}]}`, sha256.Sum256([]byte("secret-2")))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, func(s *neso.Server) { s.AuthFile = file })
	for _, address := range []string{"http://" + a["http"], "grpc://" + a["grpc"]} {
		c, calls := open(t, client.New(address)), atomic.Int64{}
		c.Before = func(_ context.Context, header http.Header) error {
			n := calls.Add(1)
			if n == 3 {
				return errors.New("no credentials")
			}
			header.Set("Authorization", "Bearer secret-"+strconv.FormatInt(n, 10))
			return nil
		}
		var answer *client.Error
		if _, err := c.Infer(t.Context(), one()); !errors.As(err, &answer) || answer.Code != codes.Unauthenticated {
			t.Errorf("%s, the first credentials: %v", address, err)
		}
		if _, err := c.Infer(t.Context(), one()); err != nil {
			t.Errorf("%s, the second ones: %v", address, err)
		}
		if _, err := c.Infer(t.Context(), one()); err == nil || err.Error() != "before a call: no credentials" {
			t.Errorf("%s, none: %v", address, err)
		}
	}
}

// TestBodies: a request that is sent by other means, and its answer.
func TestBodies(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	body, length, err := client.EncodeRequest(one())
	if err != nil || length == 0 || length >= len(body) {
		t.Fatalf("%d of %d bytes are JSON: %v", length, len(body), err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/v2/models/id/infer", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(length))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, _ := strconv.Atoi(resp.Header.Get("Inference-Header-Content-Length"))
	got, err := client.DecodeResponse(text, said)
	if err != nil || got.Model != "id" || len(got.Outputs) == 0 {
		t.Errorf("%v: %+v", err, got)
	}
	if _, err := client.DecodeResponse([]byte(`{"model_name":"m","outputs":[]}`), 0); err != nil {
		t.Errorf("all JSON: %v", err)
	}
	for _, n := range []int{-1, 3, 99} {
		if _, err := client.DecodeResponse([]byte(`{}`), n); err == nil {
			t.Errorf("%d of 2 bytes of JSON are taken", n)
		}
	}
}
