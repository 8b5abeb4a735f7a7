package grpcapi

import (
	"context"

	pb "github.com/nesoserve/neso/internal/inferencepb"
)

// textSharedMemory answers attempts to register: there is no registry, and so
// no region has a status.
const textSharedMemory = "Client shared memory is not supported by this server."

func (s *Server) systemSharedMemoryStatus(context.Context, *pb.SystemSharedMemoryStatusRequest) (*pb.SystemSharedMemoryStatusResponse, error) {
	return &pb.SystemSharedMemoryStatusResponse{}, nil
}

func (s *Server) systemSharedMemoryRegister(context.Context, *pb.SystemSharedMemoryRegisterRequest) (*pb.SystemSharedMemoryRegisterResponse, error) {
	return nil, unsupported(textSharedMemory)
}

func (s *Server) systemSharedMemoryUnregister(context.Context, *pb.SystemSharedMemoryUnregisterRequest) (*pb.SystemSharedMemoryUnregisterResponse, error) {
	return nil, unsupported(textSharedMemory)
}

func (s *Server) cudaSharedMemoryStatus(context.Context, *pb.CudaSharedMemoryStatusRequest) (*pb.CudaSharedMemoryStatusResponse, error) {
	return &pb.CudaSharedMemoryStatusResponse{}, nil
}

func (s *Server) cudaSharedMemoryRegister(context.Context, *pb.CudaSharedMemoryRegisterRequest) (*pb.CudaSharedMemoryRegisterResponse, error) {
	return nil, unsupported(textSharedMemory)
}

func (s *Server) cudaSharedMemoryUnregister(context.Context, *pb.CudaSharedMemoryUnregisterRequest) (*pb.CudaSharedMemoryUnregisterResponse, error) {
	return nil, unsupported(textSharedMemory)
}
