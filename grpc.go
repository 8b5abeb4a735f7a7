package neso

import (
	"context"
	"time"

	"github.com/nesoserve/neso/internal/grpcapi"
	"github.com/nesoserve/neso/internal/listen"
)

// GRPC configures the gRPC front end.
type GRPC struct {
	// Address is "host:port" (port 0: any free one), "unix:/path", or empty for no
	// listener.
	Address string
	// ReusePort lets several processes listen on the same port.
	ReusePort bool
	// HeaderForwardPattern is a regular expression; matching metadata become
	// request parameters.
	HeaderForwardPattern string
	// TLS secures the listener; nil means plain text.
	TLS *TLS
	// Join hands out a socket and a token with which another process can bind
	// models, see package backend/bound; nil refuses.
	Join func() (socket, token string, err error)
	// Restricted holds the metadata that calls of a category must bring. The
	// categories are those of --grpc-restricted-protocol.
	Restricted map[string]Restriction
	// Compression of inference responses: "none", "low", "medium" or "high".
	Compression string
	// KeepaliveTime is the silence after which the server pings (default 2 h),
	// KeepaliveTimeout how long it waits for the answer (default 20 s).
	KeepaliveTime, KeepaliveTimeout time.Duration
	// PingsWithoutCalls allows client pings when no call is in flight, and
	// MinPingInterval (default 5 min) is the least time between them.
	PingsWithoutCalls bool
	MinPingInterval   time.Duration
	// MaxConnectionAge ends connections (default never), after
	// MaxConnectionAgeGrace by force.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration
	// NoReflection leaves out server reflection, which tells clients such as grpcurl
	// the services and their messages.
	NoReflection bool
	// MaxMessageSize bounds one message in bytes; default MaxQueuedBytes, and 2 GiB
	// at most. MaxStreams bounds the calls of one connection (default 16384):
	// each may hold a message that no model has admitted yet.
	MaxMessageSize int64
	MaxStreams     uint32
	// Transport "library" serves by google.golang.org/grpc's server, "neso" by one of
	// our own; default "neso".
	Transport string
}

func (s *Server) openGRPC(ctx context.Context, r *running) error {
	if s.GRPC.Address == "" {
		return nil
	}
	secured, err := listen.ServerTLS((*listen.TLS)(s.GRPC.TLS), r.log, "h2")
	if err != nil {
		return err
	}
	restricted := map[string]grpcapi.Restriction{}
	for category, must := range s.GRPC.Restricted {
		restricted[category] = grpcapi.Restriction(must)
	}
	r.grpc, err = grpcapi.New(grpcapi.Options{
		Restricted: restricted, TLS: secured, HTTPAt: frontEndAt(s.HTTP.Address), Join: s.GRPC.Join,
		Guard: r.guard, ManagedElsewhere: s.AdminAddress != "",
		Engine: r.engine, Words: s.words(), Log: s.Log.shown(), Logger: r.log, ResponseCompression: s.GRPC.Compression,
		HeaderForwardPattern: s.GRPC.HeaderForwardPattern,
		KeepaliveTime:        s.GRPC.KeepaliveTime, KeepaliveTimeout: s.GRPC.KeepaliveTimeout,
		KeepalivePermitWithoutCalls: s.GRPC.PingsWithoutCalls,
		MinRecvPingInterval:         s.GRPC.MinPingInterval, MaxConnectionAge: s.GRPC.MaxConnectionAge,
		MaxConnectionAgeGrace: s.GRPC.MaxConnectionAgeGrace,
		Library:               s.GRPC.Transport == transportLibrary, NoReflection: s.GRPC.NoReflection, MaxMessageSize: s.GRPC.MaxMessageSize,
		MaxStreams: s.GRPC.MaxStreams,
	})
	if err != nil {
		return err
	}
	l, err := listen.Open(ctx, s.GRPC.Address, s.GRPC.ReusePort)
	if err != nil {
		return err
	}
	l = r.watchdog.Watch("GRPCInferenceService", l, s.GRPC.ReusePort)
	r.serve("GRPCInferenceService", l, r.grpc.Serve)
	return nil
}
