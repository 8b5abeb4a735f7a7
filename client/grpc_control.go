package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/nesoserve/neso/client/internal/plainjson"
	"github.com/nesoserve/neso/internal/inferencepb"
)

// ask makes a call with generated messages.
func (g *overGRPC) ask(ctx context.Context, method string, in, out proto.Message) error {
	m, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	b, err := g.invoke(ctx, method, mem.BufferSlice{mem.SliceBuffer(m)}, nil)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s: the answer is no message of the protocol: %w", g.c.URL, err)
	}
	return nil
}

// asJSON is ask for an answer in the form of HTTP.
func (g *overGRPC) asJSON(ctx context.Context, method string, in, out proto.Message) (json.RawMessage, error) {
	if err := g.ask(ctx, method, in, out); err != nil {
		return nil, err
	}
	return plainjson.Marshal(out), nil
}

// probed makes an answer of one that is unavailable.
func probed(yes bool, err error) (bool, error) {
	if e, ok := err.(*Error); ok && e.Code == codes.Unavailable { //nolint:errorlint // ask returns it as it is
		return false, nil
	}
	return yes && err == nil, err
}

func (g *overGRPC) live(ctx context.Context) (bool, error) {
	out := &inferencepb.ServerLiveResponse{}
	err := g.ask(ctx, "ServerLive", &inferencepb.ServerLiveRequest{}, out)
	return probed(out.GetLive(), err)
}

func (g *overGRPC) ready(ctx context.Context) (bool, error) {
	out := &inferencepb.ServerReadyResponse{}
	err := g.ask(ctx, "ServerReady", &inferencepb.ServerReadyRequest{}, out)
	return probed(out.GetReady(), err)
}

func (g *overGRPC) modelReady(ctx context.Context, model, version string) (bool, error) {
	out := &inferencepb.ModelReadyResponse{}
	err := g.ask(ctx, "ModelReady", &inferencepb.ModelReadyRequest{Name: model, Version: version}, out)
	return probed(out.GetReady(), err)
}

func (g *overGRPC) serverMetadata(ctx context.Context) (json.RawMessage, error) {
	return g.asJSON(ctx, "ServerMetadata", &inferencepb.ServerMetadataRequest{}, &inferencepb.ServerMetadataResponse{})
}

func (g *overGRPC) modelMetadata(ctx context.Context, model, version string) (json.RawMessage, error) {
	in := &inferencepb.ModelMetadataRequest{Name: model, Version: version}
	return g.asJSON(ctx, "ModelMetadata", in, &inferencepb.ModelMetadataResponse{})
}

func (g *overGRPC) modelConfig(ctx context.Context, model, version string) (json.RawMessage, error) {
	out := &inferencepb.ModelConfigResponse{}
	if err := g.ask(ctx, "ModelConfig", &inferencepb.ModelConfigRequest{Name: model, Version: version}, out); err != nil {
		return nil, err
	}
	return plainjson.Marshal(out.GetConfig()), nil
}

func (g *overGRPC) statistics(ctx context.Context, model, version string) (json.RawMessage, error) {
	in := &inferencepb.ModelStatisticsRequest{Name: model, Version: version}
	return g.asJSON(ctx, "ModelStatistics", in, &inferencepb.ModelStatisticsResponse{})
}

func (g *overGRPC) index(ctx context.Context, ready bool) ([]IndexEntry, error) {
	out := &inferencepb.RepositoryIndexResponse{}
	if err := g.ask(ctx, "RepositoryIndex", &inferencepb.RepositoryIndexRequest{Ready: ready}, out); err != nil {
		return nil, err
	}
	var list []IndexEntry
	for _, m := range out.GetModels() {
		list = append(list, IndexEntry{Name: m.GetName(), Version: m.GetVersion(), State: m.GetState(), Reason: m.GetReason()})
	}
	return list, nil
}

type repositoryParameter = inferencepb.ModelRepositoryParameter

func (g *overGRPC) load(ctx context.Context, model string, o *Override) error {
	in := &inferencepb.RepositoryModelLoadRequest{ModelName: model, Parameters: map[string]*repositoryParameter{}}
	if o.Config != "" {
		in.Parameters["config"] = &repositoryParameter{
			ParameterChoice: &inferencepb.ModelRepositoryParameter_StringParam{StringParam: o.Config},
		}
	}
	for path, content := range o.Files {
		in.Parameters["file:"+path] = &repositoryParameter{
			ParameterChoice: &inferencepb.ModelRepositoryParameter_BytesParam{BytesParam: content},
		}
	}
	return g.ask(ctx, "RepositoryModelLoad", in, &inferencepb.RepositoryModelLoadResponse{})
}

func (g *overGRPC) unload(ctx context.Context, model string, dependents bool) error {
	in := &inferencepb.RepositoryModelUnloadRequest{ModelName: model, Parameters: map[string]*repositoryParameter{
		"unload_dependents": {ParameterChoice: &inferencepb.ModelRepositoryParameter_BoolParam{BoolParam: dependents}},
	}}
	return g.ask(ctx, "RepositoryModelUnload", in, &inferencepb.RepositoryModelUnloadResponse{})
}

func (g *overGRPC) rollout(ctx context.Context, model string, change json.RawMessage) (json.RawMessage, error) {
	in := &structpb.Struct{Fields: map[string]*structpb.Value{"model": structpb.NewStringValue(model)}}
	if change != nil {
		in.Fields["change"] = structpb.NewStringValue(string(change))
	}
	out := &structpb.Struct{}
	if err := g.ask(ctx, rolloutCall, in, out); err != nil {
		return nil, err
	}
	return json.Marshal(out.AsMap())
}

func (g *overGRPC) logSettings(ctx context.Context, change map[string]any) (json.RawMessage, error) {
	in := &inferencepb.LogSettingsRequest{Settings: map[string]*inferencepb.LogSettingsRequest_SettingValue{}}
	for name, value := range change {
		plain, err := parameter(value)
		if err != nil {
			return nil, fmt.Errorf("log setting %q: %w", name, err)
		}
		v := &inferencepb.LogSettingsRequest_SettingValue{}
		switch x := plain.(type) {
		case bool:
			v.ParameterChoice = &inferencepb.LogSettingsRequest_SettingValue_BoolParam{BoolParam: x}
		case int64:
			if x < 0 || x > 1<<32-1 {
				return nil, fmt.Errorf("log setting %q: %d is out of range", name, x)
			}
			v.ParameterChoice = &inferencepb.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: uint32(x)}
		case string:
			v.ParameterChoice = &inferencepb.LogSettingsRequest_SettingValue_StringParam{StringParam: x}
		default:
			return nil, fmt.Errorf("log setting %q: expected a string, whole number or boolean, got %v", name, value)
		}
		in.Settings[name] = v
	}
	out := &inferencepb.LogSettingsResponse{}
	if err := g.ask(ctx, "LogSettings", in, out); err != nil {
		return nil, err
	}
	all := map[string]any{}
	for name, v := range out.GetSettings() {
		switch x := v.GetParameterChoice().(type) {
		case *inferencepb.LogSettingsResponse_SettingValue_BoolParam:
			all[name] = x.BoolParam
		case *inferencepb.LogSettingsResponse_SettingValue_Uint32Param:
			all[name] = x.Uint32Param
		case *inferencepb.LogSettingsResponse_SettingValue_StringParam:
			all[name] = x.StringParam
		}
	}
	return json.Marshal(all)
}

func (g *overGRPC) traceSettings(ctx context.Context, model string, change map[string]any) (json.RawMessage, error) {
	in := &inferencepb.TraceSettingRequest{ModelName: model, Settings: map[string]*inferencepb.TraceSettingRequest_SettingValue{}}
	for name, value := range change {
		list, err := texts(value)
		if err != nil {
			return nil, fmt.Errorf("trace setting %q: %w", name, err)
		}
		in.Settings[name] = &inferencepb.TraceSettingRequest_SettingValue{Value: list}
	}
	out := &inferencepb.TraceSettingResponse{}
	if err := g.ask(ctx, "TraceSetting", in, out); err != nil {
		return nil, err
	}
	all := map[string]any{}
	for name, v := range out.GetSettings() {
		switch list := v.GetValue(); {
		case name == "trace_level":
			all[name] = list
		case len(list) > 0:
			all[name] = list[0]
		default:
			all[name] = ""
		}
	}
	return json.Marshal(all)
}

// texts returns a trace setting as gRPC has it; none clears it.
func texts(value any) ([]string, error) {
	switch x := value.(type) {
	case nil:
		return nil, nil
	case []string:
		return x, nil
	case []any:
		var all []string
		for _, v := range x {
			one, err := texts(v)
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
	plain, err := parameter(value)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprint(plain)}, nil
}

func (g *overGRPC) registerSystem(ctx context.Context, r *SystemRegion) error {
	return g.ask(ctx, "SystemSharedMemoryRegister", &inferencepb.SystemSharedMemoryRegisterRequest{
		Name: r.Name, Key: r.Key, Offset: uint64(r.Offset), ByteSize: uint64(r.Size),
	}, &inferencepb.SystemSharedMemoryRegisterResponse{})
}

func (g *overGRPC) registerCUDA(ctx context.Context, r *CUDARegion, handle []byte) error {
	return g.ask(ctx, "CudaSharedMemoryRegister", &inferencepb.CudaSharedMemoryRegisterRequest{
		Name: r.Name, RawHandle: handle, DeviceId: r.Device, ByteSize: uint64(r.Size),
	}, &inferencepb.CudaSharedMemoryRegisterResponse{})
}

func (g *overGRPC) unregister(ctx context.Context, kind regionKind, name string) error {
	if kind == cudaMemory {
		return g.ask(ctx, "CudaSharedMemoryUnregister", &inferencepb.CudaSharedMemoryUnregisterRequest{Name: name},
			&inferencepb.CudaSharedMemoryUnregisterResponse{})
	}
	return g.ask(ctx, "SystemSharedMemoryUnregister", &inferencepb.SystemSharedMemoryUnregisterRequest{Name: name},
		&inferencepb.SystemSharedMemoryUnregisterResponse{})
}

func (g *overGRPC) systemRegions(ctx context.Context, name string) ([]SystemRegion, error) {
	out := &inferencepb.SystemSharedMemoryStatusResponse{}
	if err := g.ask(ctx, "SystemSharedMemoryStatus", &inferencepb.SystemSharedMemoryStatusRequest{Name: name}, out); err != nil {
		return nil, err
	}
	var list []SystemRegion
	for _, key := range slices.Sorted(maps.Keys(out.GetRegions())) {
		r := out.GetRegions()[key]
		list = append(list, SystemRegion{Name: r.GetName(), Key: r.GetKey(), Offset: int64(r.GetOffset()), Size: int64(r.GetByteSize())})
	}
	return list, nil
}

func (g *overGRPC) cudaRegions(ctx context.Context, name string) ([]CUDARegion, error) {
	out := &inferencepb.CudaSharedMemoryStatusResponse{}
	if err := g.ask(ctx, "CudaSharedMemoryStatus", &inferencepb.CudaSharedMemoryStatusRequest{Name: name}, out); err != nil {
		return nil, err
	}
	var list []CUDARegion
	for _, key := range slices.Sorted(maps.Keys(out.GetRegions())) {
		r := out.GetRegions()[key]
		list = append(list, CUDARegion{Name: r.GetName(), Device: int64(r.GetDeviceId()), Size: int64(r.GetByteSize())})
	}
	return list, nil
}
