package listen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writeCertificate writes a self-signed certificate with the given serial.
func writeCertificate(t *testing.T, dir string, serial int64, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "neso"}, DNSNames: []string{"localhost"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil { // the file system's clock is not the bubble's
			t.Fatal(err)
		}
	}
}

func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		writeCertificate(t, dir, 1, time.Now())
		var log bytes.Buffer
		files := &TLS{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
		config, err := ServerTLS(files, slog.New(slog.NewTextHandler(&log, nil)), "h2")
		if err != nil {
			t.Fatal(err)
		}
		serial := func() int64 {
			t.Helper()
			c, err := config.GetConfigForClient(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.NextProtos) != 1 || c.NextProtos[0] != "h2" {
				t.Errorf("protocols %v", c.NextProtos)
			}
			return c.Certificates[0].Leaf.SerialNumber.Int64()
		}
		writeCertificate(t, dir, 2, time.Now().Add(time.Minute))
		if got := serial(); got != 1 {
			t.Errorf("within a second of the last look: got %d, want 1", got)
		}
		time.Sleep(certificateCheck)
		if got := serial(); got != 2 {
			t.Errorf("changed: got %d, want 2", got)
		}
		if err := os.WriteFile(files.Key, []byte("not a key"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(certificateCheck)
			if got := serial(); got != 2 {
				t.Errorf("broken: got %d, want the old 2", got)
			}
		}
		if n := strings.Count(log.String(), "cannot be used"); n != 1 {
			t.Errorf("a broken change is logged %d times, want once: %s", n, &log)
		}
		writeCertificate(t, dir, 3, time.Now().Add(2*time.Minute))
		time.Sleep(certificateCheck)
		if got := serial(); got != 3 {
			t.Errorf("mended: got %d, want 3", got)
		}
	})
}

func TestBadTLSFiles(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, 1, time.Now())
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for want, files := range map[string]TLS{
		"needs a certificate and its key": {Cert: cert},
		"no such file":                    {Cert: cert, Key: key, ClientCA: dir + "/none"},
		"expected certificates":           {Cert: cert, Key: key, ClientCA: key},
		"certificate " + key:              {Cert: key, Key: cert},
	} {
		if _, err := ServerTLS(&files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
