package remote

import (
	"fmt"
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
	if i.key != "" && i.certificate == "" {
		return fmt.Errorf("--cert-key %s needs --cert", i.key)
	}
	if i.authority == "" && i.certificate == "" || c.HTTP != nil {
		return nil // a Unix socket has no TLS
	}
	config, err := client.TLSFiles{CA: i.authority}.Config()
	if err != nil {
		return fmt.Errorf("--cacert: %w", err)
	}
	own, err := client.TLSFiles{Cert: i.certificate, Key: i.key}.Config()
	if err != nil {
		return fmt.Errorf("--cert %w", err)
	}
	config.Certificates = own.Certificates
	c.TLS = config
	return nil
}
