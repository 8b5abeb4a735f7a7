package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/nesoserve/neso/internal/auth"
)

const (
	rolloutFile    = "neso/rollout.proto"
	rolloutPackage = "neso"
	rolloutService = "Rollout"
	rolloutMethod  = "ModelRollout"
)

// Fields of a ModelRollout.
const (
	rolloutModel  = "model"
	rolloutChange = "change"
)

// rolloutDesc describes what Triton has no call for: the rules for the versions of a
// model. As with bindingDesc its messages are well-known ones.
func rolloutDesc(s *Server) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: rolloutPackage + "." + rolloutService,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{unary(s, rolloutMethod, s.modelRollout)},
		Metadata:    rolloutFile,
	}
}

// modelRollout shows the rules for the versions of a model and what has happened under
// them, after changing them when there is a change: the document of HTTP, and its body.
func (s *Server) modelRollout(ctx context.Context, q *structpb.Struct) (*structpb.Struct, error) {
	for name, value := range q.Fields {
		if _, ok := value.GetKind().(*structpb.Value_StringValue); !ok || name != rolloutModel && name != rolloutChange {
			return nil, invalidArgument("expected the fields '" + rolloutModel + "' and, to change the rules, '" + rolloutChange +
				"' with the text of them, both strings; got '" + name + "'")
		}
	}
	model := q.Fields[rolloutModel].GetStringValue()
	if model == "" {
		return nil, invalidArgument("the field '" + rolloutModel + "' names no model")
	}
	if change, ok := q.Fields[rolloutChange]; ok {
		if err := s.o.Engine.Route(ctx, model, []byte(change.GetStringValue())); err != nil {
			return nil, failure(err)
		}
	}
	text, err := s.o.Engine.RoutingJSON(model)
	if err != nil {
		return nil, failure(err)
	}
	p := &structpb.Struct{}
	return p, failure(p.UnmarshalJSON(text))
}

// rolloutAccess says what a ModelRollout means for keys.
func rolloutAccess(q *structpb.Struct) (op auth.Operation, model string) {
	op = auth.Observe
	if _, changes := q.Fields[rolloutChange]; changes {
		op = auth.Control
	}
	return op, q.Fields[rolloutModel].GetStringValue()
}

// rolloutWire describes the service to who asks for it by reflection.
func rolloutWire() (protoreflect.FileDescriptor, error) {
	message := "." + string((&structpb.Struct{}).ProtoReflect().Descriptor().FullName())
	return protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new(rolloutFile), Package: new(rolloutPackage), Syntax: new("proto3"),
		Dependency: []string{structpb.File_google_protobuf_struct_proto.Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name:   new(rolloutService),
			Method: []*descriptorpb.MethodDescriptorProto{{Name: new(rolloutMethod), InputType: new(message), OutputType: new(message)}},
		}},
	}, protoregistry.GlobalFiles)
}
