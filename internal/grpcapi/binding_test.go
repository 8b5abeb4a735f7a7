package grpcapi

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestRepositoryBind(t *testing.T) {
	full := errors.New("full")
	ticket := func() (string, string, error) { return "/dir/socket", "once", nil }
	for name, c := range map[string]struct {
		join     func() (string, string, error)
		key      string
		code     codes.Code
		restrict bool
	}{
		"allowed":            {join: ticket},
		"not allowed":        {code: codes.Unimplemented},
		"too many":           {join: func() (string, string, error) { return "", "", full }, code: codes.Unavailable},
		"without its header": {join: ticket, restrict: true, code: codes.Unavailable},
		"with its header":    {join: ticket, restrict: true, key: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Join: c.join}
			if c.restrict {
				o.Restricted = map[string]Restriction{"model-repository": {Key: "triton-grpc-protocol-token", Value: "secret"}}
			}
			f := start(t, &nesotest.Echo{}, o)
			ctx := t.Context()
			if c.key != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "triton-grpc-protocol-token", c.key)
			}
			var told structpb.Struct
			err := f.conn.Invoke(ctx, "/neso.Binding/RepositoryBind", &emptypb.Empty{}, &told)
			if status.Code(err) != c.code {
				t.Fatalf("got %v, want %v", err, c.code)
			}
			if err == nil && (told.Fields["socket"].GetStringValue() != "/dir/socket" || told.Fields["token"].GetStringValue() != "once") {
				t.Errorf("got %v", &told)
			}
		})
	}
}
