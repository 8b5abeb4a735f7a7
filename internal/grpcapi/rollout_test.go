package grpcapi

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/nesoserve/neso/internal/nesotest"
)

func modelRollout(f *fixture, fields map[string]any, headers ...string) (*structpb.Struct, error) {
	f.t.Helper()
	q, err := structpb.NewStruct(fields)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &structpb.Struct{}
	ctx := metadata.AppendToOutgoingContext(f.t.Context(), headers...)
	return p, f.conn.Invoke(ctx, "/neso.Rollout/ModelRollout", q, p)
}

func TestModelRollout(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	p, err := modelRollout(f, map[string]any{"model": "fp32"})
	if err != nil || p.Fields["versions"].GetListValue().Values[0].GetStructValue().Fields["version"].GetStringValue() != "3" {
		t.Errorf("got %v, %v", p, err)
	}
	for name, c := range map[string]struct {
		fields map[string]any
		want   string
	}{
		"no model":         {nil, "InvalidArgument: the field 'model' names no model"},
		"a number":         {map[string]any{"model": 7}, "InvalidArgument: expected the fields 'model' and, to change the rules, 'change'"},
		"an object":        {map[string]any{"model": "fp32", "change": map[string]any{}}, "InvalidArgument: expected the fields"},
		"another field":    {map[string]any{"model": "fp32", "labels": "x"}, "got 'labels'"},
		"an unknown model": {map[string]any{"model": "nope"}, "NotFound: Request for unknown model: 'nope' is not found"},
		"another mode":     {map[string]any{"model": "fp32", "change": "{}"}, "Unavailable: the rules for the versions of a model can be"},
	} {
		if _, err := modelRollout(f, c.fields); !strings.Contains(words(err), c.want) {
			t.Errorf("%s: got %v, want %s", name, words(err), c.want)
		}
	}
}

func TestModelRolloutIsRestricted(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{Restricted: map[string]Restriction{"model-repository": {Key: "manage", Value: "secret"}}})
	if _, err := modelRollout(f, map[string]any{"model": "fp32"}); status.Code(err) != codes.Unavailable {
		t.Errorf("without its header: %v", err)
	}
	if _, err := modelRollout(f, map[string]any{"model": "fp32"}, "manage", "secret"); err != nil {
		t.Error(err)
	}
}

// TestRolloutIsDescribed: who asks by reflection learns of the service.
func TestRolloutIsDescribed(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	stream, err := reflection.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		p, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range p.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, "neso.Rollout") || !slices.Contains(names, serviceName) {
		t.Errorf("services %v", names)
	}
	p = ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "neso.Rollout.ModelRollout"},
	})
	if n := len(p.GetFileDescriptorResponse().GetFileDescriptorProto()); n != 2 {
		t.Errorf("%d files describe it, want its own and that of the messages: %v", n, p)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}
