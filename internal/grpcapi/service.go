package grpcapi

import (
	"context"

	"google.golang.org/grpc"
)

// serviceName is the protocol's name. The messages live in a package of our own
// name, which is not on the wire: the service is registered by hand so that a
// program may link another copy of the generated code.
const serviceName = "inference.GRPCInferenceService"

// serviceDesc lists the calls. The inference calls are streams also where they
// are unary, which saves the wrapping of generated code.
func serviceDesc(s *Server) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("ServerLive", s.serverLive),
			unary("ServerReady", s.serverReady),
			unary("ModelReady", s.modelReady),
			unary("ServerMetadata", s.serverMetadata),
			unary("ModelMetadata", s.modelMetadata),
			unary("ModelConfig", s.modelConfig),
			unary("ModelStatistics", s.modelStatistics),
			unary("RepositoryIndex", s.repositoryIndex),
			unary("RepositoryModelLoad", s.repositoryModelLoad),
			unary("RepositoryModelUnload", s.repositoryModelUnload),
			unary("SystemSharedMemoryStatus", s.systemSharedMemoryStatus),
			unary("SystemSharedMemoryRegister", s.systemSharedMemoryRegister),
			unary("SystemSharedMemoryUnregister", s.systemSharedMemoryUnregister),
			unary("CudaSharedMemoryStatus", s.cudaSharedMemoryStatus),
			unary("CudaSharedMemoryRegister", s.cudaSharedMemoryRegister),
			unary("CudaSharedMemoryUnregister", s.cudaSharedMemoryUnregister),
			unary("TraceSetting", s.traceSetting),
			unary("LogSettings", s.logSettings),
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "ModelInfer", Handler: s.modelInfer},
			{StreamName: "ModelStreamInfer", Handler: s.modelStreamInfer, ServerStreams: true, ClientStreams: true},
		},
		Metadata: "neso/inference/service.proto",
	}
}

// unary describes one call whose messages are generated code.
func unary[Q, P any](name string, handle func(context.Context, *Q) (*P, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			q := new(Q)
			if err := decode(q); err != nil {
				return nil, err
			}
			p, err := handle(ctx, q)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}
