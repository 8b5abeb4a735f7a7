package target

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/wire"
)

type overGRPC struct {
	dialer  *drive.Dialer
	host    string
	headers [][2]string

	mu    sync.Mutex
	conns map[string]drive.Conn // one for each method
}

// GRPC asks over gRPC, with headers as the metadata of each call.
func GRPC(d *drive.Dialer, host string, headers [][2]string) API {
	return &overGRPC{dialer: d, host: host, headers: headers, conns: map[string]drive.Conn{}}
}

const service = "/inference.GRPCInferenceService/"

// call makes a unary call.
func (g *overGRPC) call(ctx context.Context, method string, in, out proto.Message) error {
	m, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.conns[method]
	if c == nil {
		c = drive.GRPC(g.dialer, drive.GRPCOptions{Heads: drive.NewHeads(g.dialer, g.host, service+method, g.headers, "")})
		g.conns[method] = c
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	a := drive.Answer{Keep: true}
	if err := c.Do(&drive.Request{Prepared: &wire.Prepared{Tail: m}}, &a); err != nil {
		if ctx.Err() != nil {
			delete(g.conns, method) // it is closed for good
			return context.Cause(ctx)
		}
		return err
	}
	return proto.Unmarshal(a.Body, out)
}

func asJSON(m proto.Message, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: false}.Marshal(m)
}

func (g *overGRPC) Server(ctx context.Context) ([]byte, error) {
	out := &inferencepb.ServerMetadataResponse{}
	return asJSON(out, g.call(ctx, "ServerMetadata", &inferencepb.ServerMetadataRequest{}, out))
}

func (g *overGRPC) Metadata(ctx context.Context, model, version string) ([]byte, error) {
	out := &inferencepb.ModelMetadataResponse{}
	return asJSON(out, g.call(ctx, "ModelMetadata", &inferencepb.ModelMetadataRequest{Name: model, Version: version}, out))
}

func (g *overGRPC) Config(ctx context.Context, model, version string) ([]byte, error) {
	out := &inferencepb.ModelConfigResponse{}
	if err := g.call(ctx, "ModelConfig", &inferencepb.ModelConfigRequest{Name: model, Version: version}, out); err != nil {
		return nil, err
	}
	return asJSON(out.GetConfig(), nil)
}

func (g *overGRPC) Statistics(ctx context.Context, model, version string) ([]byte, error) {
	out := &inferencepb.ModelStatisticsResponse{}
	return asJSON(out, g.call(ctx, "ModelStatistics", &inferencepb.ModelStatisticsRequest{Name: model, Version: version}, out))
}

func (g *overGRPC) Register(ctx context.Context, name, key string, size int64) error {
	return g.call(ctx, "SystemSharedMemoryRegister", &inferencepb.SystemSharedMemoryRegisterRequest{
		Name: name, Key: key, ByteSize: uint64(size),
	}, &inferencepb.SystemSharedMemoryRegisterResponse{})
}

func (g *overGRPC) Unregister(ctx context.Context, name string) error {
	return g.call(ctx, "SystemSharedMemoryUnregister", &inferencepb.SystemSharedMemoryUnregisterRequest{Name: name},
		&inferencepb.SystemSharedMemoryUnregisterResponse{})
}

func (g *overGRPC) Trace(ctx context.Context, model string, settings map[string][]string) error {
	in := &inferencepb.TraceSettingRequest{ModelName: model, Settings: map[string]*inferencepb.TraceSettingRequest_SettingValue{}}
	for name, values := range settings {
		in.Settings[name] = &inferencepb.TraceSettingRequest_SettingValue{Value: values}
	}
	return g.call(ctx, "TraceSetting", in, &inferencepb.TraceSettingResponse{})
}

func (g *overGRPC) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		c.Close()
	}
	return nil
}

// Host is the host of an address, as requests name it.
func Host(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return "localhost"
	}
	return address
}
