package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/rollout"
)

func (s *Server) serverLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	live, err := s.live()
	if err != nil {
		return nil, err
	}
	return &pb.ServerLiveResponse{Live: live}, nil
}

// live tells a server that could not start, which is an answer, from one that is
// about to exit, which is an error.
func (s *Server) live() (bool, error) {
	err := s.o.Engine.Live()
	if err != nil && s.o.Engine.State() != engine.Failed {
		return false, failure(err)
	}
	return err == nil, nil
}

func (s *Server) serverReady(context.Context, *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	ready, err := s.ready()
	if err != nil {
		return nil, err
	}
	return &pb.ServerReadyResponse{Ready: ready}, nil
}

// ready tells a server that is not ready, which is an answer, from one that is
// about to exit, which is an error.
func (s *Server) ready() (bool, error) {
	if live, err := s.live(); !live || err != nil {
		return false, err
	}
	return s.o.Engine.Ready() == nil, nil
}

func (s *Server) modelReady(_ context.Context, q *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	version, err := s.number(q.Name, q.Version)
	if err != nil && !s.o.Engine.Labelled(q.Name) {
		return nil, err
	} else if err != nil {
		version = rollout.NoVersion // a label that there is not is as a version that there is not
	}
	live, err := s.live()
	if err != nil {
		return nil, err
	}
	err = s.o.Engine.ModelReady(q.Name, version)
	if !live {
		return nil, failure(err)
	}
	return &pb.ModelReadyResponse{Ready: err == nil}, nil
}

// health is the standard health service. The peer has Check only.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	s *Server
}

// Check ignores the name of the service, as the peer does.
func (h *health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	ready, err := h.s.ready()
	if err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: servingStatus(ready)}, nil
}

// watchInterval is how often a watched server's readiness is asked for: it has
// no notice of its own.
const watchInterval = time.Second

// Watch sends the status now and whenever it has changed.
func (h *health) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		ready, err := h.s.ready()
		now := servingStatus(ready && err == nil)
		if now != last {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return transport.Ended(stream.Context().Err()).Err()
		case <-h.s.stopping:
			return status.Error(codes.Unavailable, textShutdown)
		}
	}
}

func servingStatus(ready bool) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if ready {
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}
