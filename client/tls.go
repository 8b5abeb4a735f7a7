package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles are files in PEM form for Client.TLS.
type TLSFiles struct {
	// CA has the certificates that the server's must be signed by; default those of
	// the system.
	CA string
	// Cert has the client's certificate, for a server that asks for one, and Key its
	// key; default: it is in the file of the certificate.
	Cert, Key string
}

// Config reads the files.
func (f TLSFiles) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: expected certificates in PEM form, found none", f.CA)
		}
	}
	if f.Cert == "" {
		if f.Key != "" {
			return nil, fmt.Errorf("the key %s needs a certificate", f.Key)
		}
		return config, nil
	}
	key := f.Key
	if key == "" {
		key = f.Cert
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
