package grpcapi

import (
	"context"

	"google.golang.org/grpc"
)

// serviceName is the protocol's name. The messages live in a package of our own
// name, which is not on the wire: the service is registered by hand so that a
// program may link another copy of the generated code.
const serviceName = "inference.GRPCInferenceService"

// Methods with inference requests.
const (
	inferMethod  = "/" + serviceName + "/ModelInfer"
	streamMethod = "/" + serviceName + "/ModelStreamInfer"
)

// serviceDesc lists the calls. The inference calls are streams also where they
// are unary, which saves the wrapping of generated code.
func serviceDesc(s *Server) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary(s, "ServerLive", s.serverLive),
			unary(s, "ServerReady", s.serverReady),
			unary(s, "ModelReady", s.modelReady),
			unary(s, "ServerMetadata", s.serverMetadata),
			unary(s, "ModelMetadata", s.modelMetadata),
			unary(s, "ModelConfig", s.modelConfig),
			unary(s, "ModelStatistics", s.modelStatistics),
			unary(s, "RepositoryIndex", s.repositoryIndex),
			unary(s, "RepositoryModelLoad", s.repositoryModelLoad),
			unary(s, "RepositoryModelUnload", s.repositoryModelUnload),
			unary(s, "SystemSharedMemoryStatus", s.systemSharedMemoryStatus),
			unary(s, "SystemSharedMemoryRegister", s.systemSharedMemoryRegister),
			unary(s, "SystemSharedMemoryUnregister", s.systemSharedMemoryUnregister),
			unary(s, "CudaSharedMemoryStatus", s.cudaSharedMemoryStatus),
			unary(s, "CudaSharedMemoryRegister", s.cudaSharedMemoryRegister),
			unary(s, "CudaSharedMemoryUnregister", s.cudaSharedMemoryUnregister),
			unary(s, "TraceSetting", s.traceSetting),
			unary(s, "LogSettings", s.logSettings),
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "ModelInfer", Handler: s.modelInfer},
			{StreamName: "ModelStreamInfer", Handler: s.modelStreamInfer, ServerStreams: true, ClientStreams: true},
		},
		Metadata: "neso/inference/service.proto",
	}
}

// unary describes one call whose messages are generated code.
func unary[Q, P any](s *Server, name string, handle func(context.Context, *Q) (*P, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			q := new(Q)
			if err := decode(q); err != nil {
				return nil, err
			}
			if s.guarded() {
				if err := s.authorize(ctx, name, q); err != nil {
					return nil, err
				}
			}
			p, err := handle(ctx, q)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}
