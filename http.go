package neso

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/listen"
)

// HTTP configures the HTTP/REST front end.
type HTTP struct {
	// Address is "host:port" (port 0: any free one), "unix:/path", or empty for no
	// listener.
	Address string
	// ReusePort lets several processes listen on the same port.
	ReusePort bool
	// MaxInputSize bounds the JSON of a request, an input given as JSON, a raw
	// input and a decompressed body; default 64 MiB. Binary tensors have the bound
	// of MaxQueuedBytes.
	MaxInputSize int64
	// HeaderForwardPattern is a regular expression; matching headers become
	// request parameters.
	HeaderForwardPattern string
	// Join hands out a socket and a token with which another process can bind
	// models, see package backend/bound; nil refuses.
	Join func() (socket, token string, err error)
	// TrustedHosts are names by which a proxy on this machine, or a page in a
	// browser, knows the server, as patterns with `*`; without them requests that
	// change it, and come from a page or for an unknown name, are refused.
	TrustedHosts []string
	// NoDescription leaves out /openapi.json, which describes the API with the models
	// that are loaded, and /docs, which shows that.
	NoDescription bool
	// OpenAI serves the models that take or make text at /v1/, as OpenAI's API does.
	OpenAI bool
	// TLS makes the listener speak HTTPS; nil means plain text.
	TLS *TLS
	// Restricted holds the header that requests of a category must bring. The
	// categories are those of --http-restricted-api.
	Restricted map[string]Restriction
	// HeaderTimeout, ReadTimeout and IdleTimeout bound how long a client may take
	// for the headers (default ReadTimeout), for the whole request (default 1 min,
	// for large bodies the time that 16 KiB/s need on top) and between requests
	// (default 10 min).
	HeaderTimeout, ReadTimeout, IdleTimeout time.Duration
	// MaxConnectionAge is after how long a connection is asked to end with its next
	// reply (Connection: close), give or take a tenth; default never.
	MaxConnectionAge time.Duration
	// Transport "library" has net/http serve all requests, "neso" serves those of
	// inference before it; default "neso".
	Transport string
}

// Restriction is a header, or a key of gRPC metadata, and the value it must have.
type Restriction struct{ Key, Value string }

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

// httpService is what the log calls the HTTP front end.
const httpService = "HTTPService"

func (s *Server) openHTTP(ctx context.Context, r *running) error {
	var err error
	restricted := map[httpapi.Category]httpapi.Restriction{}
	for category, must := range s.HTTP.Restricted {
		restricted[httpapi.Category(category)] = httpapi.Restriction{Header: must.Key, Value: must.Value}
	}
	r.api, err = httpapi.New(httpapi.Options{
		Restricted: restricted, GRPCAt: frontEndAt(s.GRPC.Address), Join: s.HTTP.Join, TrustedHosts: s.HTTP.TrustedHosts,
		Guard: r.guard, ManagedElsewhere: s.AdminAddress != "",
		Engine: r.engine, Words: s.words(),
		Customs: r.customs, MaxInputSize: s.HTTP.MaxInputSize, HeaderForwardPattern: s.HTTP.HeaderForwardPattern,
		Log: s.Log.shown(), Logger: r.log, MaxConnectionAge: s.HTTP.MaxConnectionAge, HeaderTimeout: s.HTTP.HeaderTimeout,
		ReadTimeout: s.HTTP.ReadTimeout, IdleTimeout: s.HTTP.IdleTimeout, NoDescription: s.HTTP.NoDescription, OpenAI: s.HTTP.OpenAI,
	})
	if err == nil {
		err = s.openAdmin(ctx, r)
	}
	if err != nil || s.HTTP.Address == "" {
		return err
	}
	l, err := listen.Open(ctx, s.HTTP.Address, s.HTTP.ReusePort)
	if err != nil {
		return err
	}
	l = r.watchdog.Watch(httpService, l, s.HTTP.ReusePort)
	if l, err = s.HTTP.secure(l, r.log); err != nil {
		return err
	}
	if s.HTTP.Transport == transportLibrary {
		h := r.api.HTTPServer()
		r.quiet.Watch(h)
		r.http = h
	} else {
		h := r.api.Transport()
		r.quiet.Watch(h.Server)
		r.http = h
	}
	r.serve(httpService, l, r.http.Serve)
	return nil
}

// secure puts TLS over a listener of HTTP, if it is asked for: a handshake may take as
// long as the headers of a request.
func (h *HTTP) secure(l net.Listener, log *slog.Logger) (net.Listener, error) {
	return listen.Secure(l, (*listen.TLS)(h.TLS), cmp.Or(h.HeaderTimeout, h.ReadTimeout), log)
}

// openAdmin opens the listener of administrators, if there is one.
func (s *Server) openAdmin(ctx context.Context, r *running) error {
	if s.AdminAddress == "" {
		return nil
	}
	l, err := listen.Open(ctx, s.AdminAddress, false)
	if err != nil {
		return fmt.Errorf("admin address: %w", err)
	}
	l = r.watchdog.Watch("Admin Service", l, false)
	if l, err = s.HTTP.secure(l, r.log); err != nil {
		return err
	}
	r.admin = r.api.HTTPServer()
	r.admin.Handler = r.api.Admin()
	r.quiet.Watch(r.admin)
	r.serve("Admin Service", l, r.admin.Serve)
	return nil
}

// frontEndAt names what listens at an address to a client that has come to another
// front end of this machine; empty where that is not known.
func frontEndAt(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return "a Unix socket"
	}
	if _, port, err := net.SplitHostPort(address); err == nil && port != "0" {
		return "port " + port
	}
	return ""
}
