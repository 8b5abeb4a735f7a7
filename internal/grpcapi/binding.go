package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// bindingDesc describes the one call that Triton lacks, in a service of our own
// name. Its messages are well-known ones, so that a client needs no generated
// code for it.
func bindingDesc(s *Server) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "neso.Binding",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{unary(s, "RepositoryBind", s.repositoryBind)},
		Metadata:    "neso/binding.proto",
	}
}

// repositoryBind answers where another process can bind models to this server,
// and with which token: the fields "socket" and "token".
func (s *Server) repositoryBind(context.Context, *emptypb.Empty) (*structpb.Struct, error) {
	if s.o.Join == nil {
		return nil, unsupported("binding models to this server is not allowed. Start it with '" + s.o.Words.Name("allow-bind") +
			"=true' to enable.")
	}
	socket, token, err := s.o.Join()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"socket": structpb.NewStringValue(socket), "token": structpb.NewStringValue(token),
	}}, nil
}
