package cli

import "github.com/nesoserve/neso"

// tlsOptions are the files of each listener and whether gRPC uses its own.
type tlsOptions struct {
	httpTLS, grpcTLS, metricsTLS neso.TLS
	grpcSSL, grpcMutual          bool
}

// completeTLS hands the files to the listeners that use them.
func (o *serveOptions) completeTLS() error {
	for _, l := range []struct {
		name  string
		files *neso.TLS
		set   **neso.TLS
	}{{"http", &o.httpTLS, &o.server.HTTP.TLS}, {"metrics", &o.metricsTLS, &o.server.Metrics.TLS}} {
		if *l.files == (neso.TLS{}) {
			continue
		}
		if l.files.Cert == "" || l.files.Key == "" {
			return &usageError{"--" + l.name + "-tls-cert and --" + l.name + "-tls-key go together"}
		}
		*l.set = l.files
	}
	// --grpc-use-ssl-mutual=false leaves --grpc-use-ssl as it is, see docs/differences.md.
	if !o.grpcSSL && !o.grpcMutual {
		if o.grpcTLS != (neso.TLS{}) {
			o.warnings = append(o.warnings,
				"gRPC is not encrypted: --grpc-server-cert, --grpc-server-key and --grpc-root-cert need --grpc-use-ssl=true")
		}
		return nil
	}
	files := o.grpcTLS
	switch {
	case files.Cert == "" || files.Key == "":
		return &usageError{"--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key"}
	case o.grpcMutual && files.ClientCA == "":
		return &usageError{"--grpc-use-ssl-mutual needs --grpc-root-cert"}
	case !o.grpcMutual:
		files.ClientCA = ""
	}
	o.server.GRPC.TLS = &files
	return nil
}
