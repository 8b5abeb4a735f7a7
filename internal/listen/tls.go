package listen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/filestamp"
)

// TLS names the files of a front end that speaks TLS 1.2 or later. They are
// read again when they change: new connections get the new certificate, and a
// change that cannot be used is logged while the old one goes on.
type TLS struct {
	// Cert and Key are PEM files: the certificate with its chain, and its key.
	Cert, Key string
	// ClientCA is a PEM file of authorities. Clients must then show a certificate
	// that one of them has signed (mutual TLS); empty asks none.
	ClientCA string
}

func (t *TLS) files() []string {
	files := []string{t.Cert, t.Key}
	if t.ClientCA != "" {
		files = append(files, t.ClientCA)
	}
	return files
}

// cipherSuites are those of TLS 1.2: authenticated encryption and a key exchange
// that keeps nothing. Go's own list has CBC too. TLS 1.3 has no others.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// load reads the files; protocols are those offered to clients (ALPN).
func (t *TLS) load(protocols []string) (*tls.Config, error) {
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("TLS needs a certificate and its key, got %q and %q", t.Cert, t.Key)
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.Cert, t.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: protocols, MinVersion: tls.VersionTLS12,
		CipherSuites: cipherSuites,
	}
	if t.ClientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: expected certificates of authorities in PEM form, found none", t.ClientCA)
	}
	return config, nil
}

// certificateCheck is how often the files are looked at, at most, and only when
// a client connects.
const certificateCheck = time.Second

// certificates holds what TLS names, as last read.
type certificates struct {
	files     TLS
	protocols []string
	log       *slog.Logger

	mu      sync.Mutex
	config  *tls.Config
	checked time.Time
	stamps  filestamp.Stamps
}

// ServerTLS returns the configuration of a listener; nil for plain text.
func ServerTLS(t *TLS, log *slog.Logger, protocols ...string) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &certificates{files: *t, protocols: protocols, log: log, checked: time.Now()}
	var err error
	if c.config, err = c.files.load(protocols); err == nil {
		c.stamps, err = filestamp.Of(c.files.files()...)
	}
	if err != nil {
		return nil, err
	}
	return &tls.Config{GetConfigForClient: c.forClient, NextProtos: protocols, MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites}, nil
}

// forClient returns the present configuration, read anew if the files changed.
func (c *certificates) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateCheck {
		return c.config, nil
	}
	c.checked = time.Now()
	stamps, err := filestamp.Of(c.files.files()...)
	if err == nil && stamps.Equal(c.stamps) {
		return c.config, nil
	}
	if err == nil {
		c.stamps = stamps // said once, whether it can be used or not
		var config *tls.Config
		if config, err = c.files.load(c.protocols); err == nil {
			c.config = config
			c.log.Info("new certificate", "file", c.files.Cert)
		}
	}
	if err != nil {
		c.log.Warn("the changed certificate cannot be used, the old one stays", "error", err)
	}
	return c.config, nil
}
