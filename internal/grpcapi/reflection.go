package grpcapi

import (
	"io"
	"maps"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/nesoserve/neso/internal/inferencepb"
)

// wirePackage is the package that clients know the protocol's messages by.
const wirePackage = "inference"

// reflect registers what tells clients the services and their messages, in both
// versions that clients speak.
func (s *Server) reflect() error {
	files, err := wireFiles()
	if err != nil {
		return err
	}
	o := reflection.ServerOptions{Services: described{s.grpc, resolver{files}}, DescriptorResolver: resolver{files}}
	v1.RegisterServerReflectionServer(s.grpc, &reflected{ServerReflectionServer: reflection.NewServerV1(o), s: s})
	v1alpha.RegisterServerReflectionServer(s.grpc, &reflectedAlpha{ServerReflectionServer: reflection.NewServer(o), s: s})
	return nil
}

// described are the services that have a descriptor: who lists the others gives
// up at the first that cannot be described. Those are between the server and its
// own parts.
type described struct {
	all      reflection.ServiceInfoProvider
	resolver resolver
}

func (d described) GetServiceInfo() map[string]grpc.ServiceInfo {
	services := d.all.GetServiceInfo()
	maps.DeleteFunc(services, func(name string, _ grpc.ServiceInfo) bool {
		_, err := d.resolver.FindDescriptorByName(protoreflect.FullName(name))
		return err != nil
	})
	return services
}

// resolver finds the protocol's descriptors first, then those of the others.
type resolver struct{ own *protoregistry.Files }

func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := r.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := r.own.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// wireFiles returns the descriptors under the names that clients call: those of
// the generated code have a package of our own, and no service.
func wireFiles() (*protoregistry.Files, error) {
	config, service := protodesc.ToFileDescriptorProto(pb.File_neso_inference_model_config_proto),
		protodesc.ToFileDescriptorProto(pb.File_neso_inference_service_proto)
	for _, f := range []*descriptorpb.FileDescriptorProto{config, service} {
		own := "." + f.GetPackage() + "."
		f.Package = new(wirePackage)
		for _, m := range f.MessageType {
			renameTypes(m, own)
		}
		f.Options = nil // the Go package, which is of no use to clients
	}
	config.Name, service.Name = new("model_config.proto"), new("grpc_service.proto")
	service.Dependency = []string{config.GetName()}
	service.Service = []*descriptorpb.ServiceDescriptorProto{wireService()}
	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{config, service}})
	if err != nil {
		return nil, err
	}
	ours, err := rolloutWire()
	if err != nil {
		return nil, err
	}
	return files, files.RegisterFile(ours)
}

func renameTypes(m *descriptorpb.DescriptorProto, own string) {
	for _, f := range m.Field {
		if rest, ok := strings.CutPrefix(f.GetTypeName(), own); ok {
			f.TypeName = new("." + wirePackage + "." + rest)
		}
	}
	for _, nested := range m.NestedType {
		renameTypes(nested, own)
	}
}

// wireService describes the calls of serviceDesc: each has messages of its own
// name, but the one that is a stream of another's requests.
func wireService() *descriptorpb.ServiceDescriptorProto {
	_, name, _ := strings.Cut(serviceName, ".")
	service := &descriptorpb.ServiceDescriptorProto{Name: new(name)}
	call := func(name, request string, stream bool) {
		m := &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new("." + wirePackage + "." + request), OutputType: new("." + wirePackage + "." + name + "Response"),
		}
		if stream {
			m.ClientStreaming, m.ServerStreaming = new(true), new(true)
		}
		service.Method = append(service.Method, m)
	}
	desc := serviceDesc(&Server{})
	for _, m := range desc.Methods {
		call(m.MethodName, m.MethodName+"Request", false)
	}
	for _, st := range desc.Streams {
		call(st.StreamName, "ModelInferRequest", st.ClientStreams)
	}
	return service
}

// reflected ends with the server: a client that only looks may keep its stream
// open for as long as it likes.
type reflected struct {
	v1.ServerReflectionServer
	s *Server
}

func (r *reflected) ServerReflectionInfo(stream grpc.BidiStreamingServer[v1.ServerReflectionRequest, v1.ServerReflectionResponse]) error {
	return r.ServerReflectionServer.ServerReflectionInfo(&ending[v1.ServerReflectionRequest, v1.ServerReflectionResponse]{stream, r.s})
}

type reflectedAlpha struct {
	v1alpha.ServerReflectionServer
	s *Server
}

// The older form of the service, which its authors have marked as deprecated, is
// the one that many clients ask for first.
type (
	alphaRequest  = v1alpha.ServerReflectionRequest  //nolint:staticcheck // served on purpose, see above
	alphaResponse = v1alpha.ServerReflectionResponse //nolint:staticcheck // served on purpose, see above
)

func (r *reflectedAlpha) ServerReflectionInfo(stream grpc.BidiStreamingServer[alphaRequest, alphaResponse]) error {
	return r.ServerReflectionServer.ServerReflectionInfo(&ending[alphaRequest, alphaResponse]{stream, r.s})
}

// ending is a stream that is at its end when the server begins to stop.
type ending[Q, P any] struct {
	grpc.BidiStreamingServer[Q, P]
	s *Server
}

func (e *ending[Q, P]) Recv() (*Q, error) {
	type received struct {
		q   *Q
		err error
	}
	done := make(chan received, 1) // nobody may wait for it any more
	e.s.work.Go(func() {
		q, err := e.BidiStreamingServer.Recv()
		done <- received{q, err}
	})
	select {
	case r := <-done:
		return r.q, r.err
	case <-e.s.stopping:
		return nil, io.EOF
	}
}
