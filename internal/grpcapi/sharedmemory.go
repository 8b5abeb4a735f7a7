package grpcapi

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/shm"
)

// memory returns the shared memory as the sender of a call sees it.
func (s *Server) memory(ctx context.Context) *shm.Registry {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	proxied := false
	for _, key := range shm.ProxyHeaders {
		proxied = proxied || len(metadata.ValueFromIncomingContext(ctx, key)) > 0 // whatever the case
	}
	return s.o.Engine.SharedMemory().For(p.Addr.Network(), p.Addr.String(), proxied)
}

// usable is memory for an inference: nil, at no cost, while nothing is
// registered.
func (s *Server) usable(ctx context.Context) *shm.Registry {
	if s.o.Engine.SharedMemory().Empty() {
		return nil
	}
	return s.memory(ctx)
}

func (s *Server) systemSharedMemoryStatus(
	ctx context.Context, q *pb.SystemSharedMemoryStatusRequest,
) (*pb.SystemSharedMemoryStatusResponse, error) {
	regions, err := s.memory(ctx).Regions(shm.System, q.GetName())
	if err != nil {
		return nil, failure(err)
	}
	p := &pb.SystemSharedMemoryStatusResponse{Regions: make(map[string]*pb.SystemSharedMemoryStatusResponse_RegionStatus, len(regions))}
	for _, r := range regions {
		p.Regions[r.Name] = &pb.SystemSharedMemoryStatusResponse_RegionStatus{Name: r.Name, Key: r.Key, Offset: r.Offset, ByteSize: r.ByteSize}
	}
	return p, nil
}

func (s *Server) systemSharedMemoryRegister(ctx context.Context,
	q *pb.SystemSharedMemoryRegisterRequest,
) (*pb.SystemSharedMemoryRegisterResponse, error) {
	if err := s.memory(ctx).RegisterSystem(q.GetName(), q.GetKey(), q.GetOffset(), q.GetByteSize()); err != nil {
		return nil, failure(err)
	}
	return &pb.SystemSharedMemoryRegisterResponse{}, nil
}

func (s *Server) systemSharedMemoryUnregister(ctx context.Context,
	q *pb.SystemSharedMemoryUnregisterRequest,
) (*pb.SystemSharedMemoryUnregisterResponse, error) {
	if err := s.memory(ctx).Unregister(shm.System, q.GetName()); err != nil {
		return nil, failure(err)
	}
	return &pb.SystemSharedMemoryUnregisterResponse{}, nil
}

func (s *Server) cudaSharedMemoryStatus(
	ctx context.Context, q *pb.CudaSharedMemoryStatusRequest,
) (*pb.CudaSharedMemoryStatusResponse, error) {
	regions, err := s.memory(ctx).Regions(shm.CUDA, q.GetName())
	if err != nil {
		return nil, failure(err)
	}
	p := &pb.CudaSharedMemoryStatusResponse{Regions: make(map[string]*pb.CudaSharedMemoryStatusResponse_RegionStatus, len(regions))}
	for _, r := range regions {
		p.Regions[r.Name] = &pb.CudaSharedMemoryStatusResponse_RegionStatus{Name: r.Name, DeviceId: r.Device, ByteSize: r.ByteSize}
	}
	return p, nil
}

func (s *Server) cudaSharedMemoryRegister(
	ctx context.Context, q *pb.CudaSharedMemoryRegisterRequest,
) (*pb.CudaSharedMemoryRegisterResponse, error) {
	if err := s.memory(ctx).RegisterCUDA(q.GetName(), q.GetRawHandle(), q.GetDeviceId(), q.GetByteSize()); err != nil {
		return nil, failure(err)
	}
	return &pb.CudaSharedMemoryRegisterResponse{}, nil
}

func (s *Server) cudaSharedMemoryUnregister(ctx context.Context,
	q *pb.CudaSharedMemoryUnregisterRequest,
) (*pb.CudaSharedMemoryUnregisterResponse, error) {
	if err := s.memory(ctx).Unregister(shm.CUDA, q.GetName()); err != nil {
		return nil, failure(err)
	}
	return &pb.CudaSharedMemoryUnregisterResponse{}, nil
}
