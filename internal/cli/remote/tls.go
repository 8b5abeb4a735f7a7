package remote

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
)

// identity is whom the commands trust over TLS, and as whom they come: PEM files.
type identity struct {
	authority, certificate, key string
}

func (i *identity) flags(c *cobra.Command) {
	c.Flags().StringVar(&i.authority, "cacert", os.Getenv("NESO_CACERT"),
		"a file with the certificates (PEM) that the server's must be signed by, instead of the system's; $NESO_CACERT")
	c.Flags().StringVar(&i.certificate, "cert", os.Getenv("NESO_CERT"),
		"a file with the client's certificate (PEM), for a server that asks for one; $NESO_CERT")
	c.Flags().StringVar(&i.key, "cert-key", os.Getenv("NESO_CERT_KEY"),
		"a file with the key (PEM) of --cert; without it the key is in the file of --cert; $NESO_CERT_KEY")
}

// apply makes c use them.
func (i *identity) apply(c *client.Client) error {
	if i.authority == "" && i.certificate == "" {
		if i.key != "" {
			return fmt.Errorf("--cert-key %s needs --cert", i.key)
		}
		return nil
	}
	if c.HTTP != nil {
		return nil // a Unix socket has no TLS
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if i.authority != "" {
		text, err := os.ReadFile(i.authority)
		if err != nil {
			return fmt.Errorf("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--cacert %s: expected certificates in PEM form, found none", i.authority)
		}
	}
	if i.certificate != "" {
		key := i.key
		if key == "" {
			key = i.certificate
		}
		pair, err := tls.LoadX509KeyPair(i.certificate, key)
		if err != nil {
			return fmt.Errorf("--cert %s: %w", i.certificate, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true}
	c.HTTP = &http.Client{Transport: transport}
	return nil
}
