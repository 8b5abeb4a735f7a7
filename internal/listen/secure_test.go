package listen

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveMutual serves HTTP to clients with certificates, until the test ends.
func serveMutual(t *testing.T) (addr string, l net.Listener) {
	t.Helper()
	dir := t.TempDir()
	writeCertificate(t, dir, 1, time.Now())
	cert := filepath.Join(dir, "cert")
	plain, err := Open(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	l, err = Secure(plain, &TLS{Cert: cert, Key: filepath.Join(dir, "key"), ClientCA: cert}, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("served until %v", err)
		}
	})
	return plain.Addr().String(), l
}

// TestWhyAClientIsRefused has a client without a certificate send a request behind
// its handshake, as clients of TLS 1.3 do: it reads why it is refused, rather than
// that the connection is reset.
func TestWhyAClientIsRefused(t *testing.T) {
	addr, _ := serveMutual(t)
	for range 50 {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the client is what is tested
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Write(make([]byte, 64<<10))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Fatalf("got %v, want that a certificate is required", err)
		}
		_ = c.Close()
	}
}

func TestCloseEndsHandshakes(t *testing.T) {
	addr, l := serveMutual(t)
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte{22, 3, 1}); err != nil { // what a hello begins with
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of a closed listener's connection", n)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener: %v", err)
	}
}
