package client_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// certificates writes an authority, and a certificate of it with its key in one file.
func certificates(t *testing.T) (ca, pair string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	dir := t.TempDir()
	ca, pair = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "pair.pem")
	both := append(bytes.Clone(public), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := errors.Join(os.WriteFile(ca, public, 0o600), os.WriteFile(pair, both, 0o600)); err != nil {
		t.Fatal(err)
	}
	return ca, pair
}

func TestTLS(t *testing.T) {
	ca, pair := certificates(t)
	a := start(t, func(s *neso.Server) {
		s.HTTP.TLS = &neso.TLS{Cert: pair, Key: pair, ClientCA: ca}
		s.GRPC.TLS = s.HTTP.TLS
	})
	for _, c := range []struct {
		files client.TLSFiles
		works bool
	}{
		{client.TLSFiles{CA: ca, Cert: pair}, true},
		{client.TLSFiles{CA: ca, Cert: pair, Key: pair}, true},
		{client.TLSFiles{CA: ca}, false},     // the server wants a certificate
		{client.TLSFiles{Cert: pair}, false}, // the system does not know the authority
	} {
		config, err := c.files.Config()
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{"https://" + a["http"], "grpcs://" + a["grpc"]} {
			to := client.New(address)
			to.TLS = config
			if ready, err := open(t, to).Ready(t.Context()); ready != c.works || (err == nil) != c.works {
				t.Errorf("%s with %+v: %v, %v", address, c.files, ready, err)
			}
		}
	}
	for _, bad := range []client.TLSFiles{{CA: "none.pem"}, {Key: pair}, {Cert: ca}, {CA: os.Args[0]}} {
		if _, err := bad.Config(); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestWhyAServerRefuses: in TLS 1.3 the request is on its way when the server says that it wants a
// certificate, and cannot always be written.
func TestWhyAServerRefuses(t *testing.T) {
	ca, pair := certificates(t)
	a := start(t, func(s *neso.Server) { s.HTTP.TLS = &neso.TLS{Cert: pair, Key: pair, ClientCA: ca} })
	config, err := client.TLSFiles{CA: ca}.Config()
	if err != nil {
		t.Fatal(err)
	}
	to := client.New("https://" + a["http"])
	to.TLS = config
	to = open(t, to)
	errs := make(chan error, 200)
	for range cap(errs) {
		go func() {
			_, err := to.Ready(t.Context())
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err == nil || !strings.HasSuffix(err.Error(), "/v2/health/ready\": remote error: tls: certificate required") {
			t.Errorf("got %v", err)
		}
	}
}

func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	text := fmt.Sprintf(`{"keys": [{"name": "k", "sha256": "%x", "scopes": ["infer", "read"]}]}`, sha256.Sum256([]byte("secret")))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, func(s *neso.Server) { s.AuthFile = file })
	for _, address := range []string{"http://" + a["http"], "grpc://" + a["grpc"]} {
		for _, c := range []struct {
			key    string
			header http.Header
			code   codes.Code
		}{
			{"secret", nil, codes.OK},
			{"", http.Header{"X-Api-Key": {"secret"}}, codes.OK},
			{"wrong", http.Header{"Authorization": {"Bearer secret"}}, codes.OK}, // the header wins
			{"wrong", nil, codes.Unauthenticated},
			{"", nil, codes.Unauthenticated},
		} {
			to := open(t, client.New(address))
			to.Key, to.Header = c.key, c.header
			_, err := to.Infer(t.Context(), one())
			var answer *client.Error
			if (err == nil) != (c.code == codes.OK) || err != nil && (!errors.As(err, &answer) || answer.Code != c.code) {
				t.Errorf("%s with %q, %v: got %v", address, c.key, c.header, err)
			}
			if c.code == codes.OK {
				if err := to.Unload(t.Context(), "id", false); !errors.As(err, &answer) || answer.Code != codes.PermissionDenied {
					t.Errorf("%s: unload got %v", address, err)
				}
			}
		}
		q, to := one(), open(t, client.New(address))
		q.Header = http.Header{"X-Api-Key": {"secret"}}
		if _, err := to.Infer(t.Context(), q); err != nil {
			t.Errorf("%s, the key with the request: %v", address, err)
		}
	}
}

func TestCompression(t *testing.T) {
	a := start(t, nil)
	large := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1, 1 << 18}, Values: make([]int32, 1<<18)}
	for _, scheme := range []string{"http", "grpc"} {
		for _, encoding := range []string{"gzip", "deflate"} {
			c := open(t, client.New(scheme+"://"+a[scheme]))
			c.Compress, c.CompressAnswers = encoding, encoding
			resp, err := c.Infer(t.Context(), &client.Request{Model: "id", Inputs: []client.Input{large.Input()}})
			if err != nil || len(resp.Output("X").Data) != 1<<20 {
				t.Errorf("%s, %s: %v", scheme, encoding, err)
			}
			small := open(t, client.New(scheme+"://"+a[scheme]))
			small.Compress, small.CompressAnswers, small.MaxAnswer = encoding, encoding, 1<<19
			if _, err := small.Infer(t.Context(), &client.Request{Model: "id", Inputs: []client.Input{large.Input()}}); err == nil {
				t.Errorf("%s, %s: an answer beyond MaxAnswer", scheme, encoding)
			}
		}
		c := open(t, client.New(scheme+"://"+a[scheme]))
		c.MaxAnswer = 1 << 19
		if _, err := c.Infer(t.Context(), &client.Request{Model: "id", Inputs: []client.Input{large.Input()}}); err == nil {
			t.Errorf("%s: an answer beyond MaxAnswer", scheme)
		}
		c = open(t, client.New(scheme+"://"+a[scheme]))
		c.Compress = "br"
		if _, err := c.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `expected "gzip" or "deflate"`) {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

// TestRequestsAreCompressed looks at what a server gets.
func TestRequestsAreCompressed(t *testing.T) {
	var size int64
	var encoding, accepted string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ = io.Copy(io.Discard, r.Body)
		encoding, accepted = r.Header.Get("Content-Encoding"), r.Header.Get("Accept-Encoding")
		_, _ = w.Write([]byte(`{"model_name":"id","outputs":[]}`))
	}))
	defer srv.Close()
	large := client.Tensor[int32]{Name: "X", Shape: tensor.Shape{1 << 18}, Values: make([]int32, 1<<18)}
	q := &client.Request{Model: "id", Inputs: []client.Input{large.Input()}}
	c := open(t, client.New(srv.URL))
	if _, err := c.Infer(t.Context(), q); err != nil || size < 1<<20 || encoding != "" || accepted != "" {
		t.Errorf("%v: %d bytes, %q, %q", err, size, encoding, accepted)
	}
	c = open(t, client.New(srv.URL))
	c.Compress, c.CompressAnswers = "gzip", "deflate"
	if _, err := c.Infer(t.Context(), q); err != nil || size > 1<<16 || encoding != "gzip" || accepted != "deflate" {
		t.Errorf("%v: %d bytes, %q, %q", err, size, encoding, accepted)
	}
}

// TestErrorsOfOthers: servers and proxies say errors in ways of their own.
func TestErrorsOfOthers(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"a"}`:               "a (HTTP status 418)",
		"data: {\"error\":\"a\"}\n\n": "a (HTTP status 418)", // Triton's generate_stream
		"<html>no\n":                  "<html>no (HTTP status 418)",
		"":                            "I'm a teapot (HTTP status 418)",
		`{"detail":"a"}`:              `{"detail":"a"} (HTTP status 418)`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, body)
		}))
		c := client.New(srv.URL)
		if _, err := c.Infer(t.Context(), one()); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", body, err, want)
		}
		c.Close()
		srv.Close()
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"grpc://nowhere": "expected grpc://HOST:PORT", "http://[::1": "missing ']'", "grpc://": "expected grpc://HOST:PORT",
	} {
		if _, err := open(t, client.New(address)).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", address, err, want)
		}
	}
	c := client.New("grpc://127.0.0.1:1")
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if _, err := c.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed: got %v", err)
	}
}

// TestConnections: calls over gRPC go over as many connections as are asked for.
func TestConnections(t *testing.T) {
	a := start(t, nil)
	for _, scheme := range []string{"http", "grpc"} {
		c := open(t, client.New(scheme+"://"+a[scheme]))
		c.Connections, c.KeepAlive = 3, time.Hour
		done := make(chan error)
		for range 8 {
			go func() {
				_, err := c.Infer(t.Context(), one())
				done <- err
			}()
		}
		for range 8 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}
