package grpcapi

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestHealthAndMetadata(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	check := func(name string, got any, err error, want any) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	live, err := invoke[pb.ServerLiveResponse](f, "ServerLive", &pb.ServerLiveRequest{})
	check("live", live, err, &pb.ServerLiveResponse{Live: true})
	ready, err := invoke[pb.ServerReadyResponse](f, "ServerReady", &pb.ServerReadyRequest{})
	check("ready", ready, err, &pb.ServerReadyResponse{Ready: true})
	for _, tt := range []struct {
		name, version string
		want          bool
	}{{"fp32", "", true}, {"fp32", "3", true}, {"fp32", "1", false}, {"nope", "", false}} {
		p, err := invoke[pb.ModelReadyResponse](f, "ModelReady", &pb.ModelReadyRequest{Name: tt.name, Version: tt.version})
		check("model ready "+tt.name+" "+tt.version, p, err, &pb.ModelReadyResponse{Ready: tt.want})
	}
	server, err := invoke[pb.ServerMetadataResponse](f, "ServerMetadata", &pb.ServerMetadataRequest{})
	m := f.engine.Metadata()
	check("server", server, err, &pb.ServerMetadataResponse{Name: m.Name, Version: m.Version, Extensions: m.Extensions})
	model, err := invoke[pb.ModelMetadataResponse](f, "ModelMetadata", &pb.ModelMetadataRequest{Name: "fp32"})
	check("model", model, err, &pb.ModelMetadataResponse{
		Name: "fp32", Versions: []string{"3"}, Platform: "test",
		Inputs:  []*pb.ModelMetadataResponse_TensorMetadata{{Name: "IN", Datatype: "FP32", Shape: []int64{-1}}},
		Outputs: []*pb.ModelMetadataResponse_TensorMetadata{{Name: "OUT", Datatype: "FP32", Shape: []int64{-1}}},
	})
	config, err := invoke[pb.ModelConfigResponse](f, "ModelConfig", &pb.ModelConfigRequest{Name: "wide"})
	if err != nil || config.Config.Name != "wide" || config.Config.InstanceGroup[0].Count != 4 {
		t.Errorf("config: %v, %v", config, err)
	}
	health, err := grpc_health_v1.NewHealthClient(f.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "anything"})
	check("health", health, err, &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
	watch, err := grpc_health_v1.NewHealthClient(f.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	health, err = watch.Recv()
	check("watch", health, err, &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
}

func TestControlErrors(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	type parameters = map[string]*pb.ModelRepositoryParameter
	text := &pb.ModelRepositoryParameter{ParameterChoice: &pb.ModelRepositoryParameter_StringParam{StringParam: "x"}}
	number := &pb.ModelRepositoryParameter{ParameterChoice: &pb.ModelRepositoryParameter_Int64Param{Int64Param: 1}}
	tests := []struct {
		method  string
		request any
		want    string
	}{
		{"ModelReady", &pb.ModelReadyRequest{Name: "fp32", Version: "abc"}, "InvalidArgument: failed to get model version from specified " +
			"version string 'abc' (details: stol), version should be an integral value > 0"},
		{"ModelMetadata", &pb.ModelMetadataRequest{Name: "nope"}, "NotFound: Request for unknown model: 'nope' is not found"},
		{"ModelConfig", &pb.ModelConfigRequest{Name: "nope"}, "NotFound: Request for unknown model: 'nope' is not found"},
		{"ModelStatistics", &pb.ModelStatisticsRequest{Name: "nope"}, "InvalidArgument: requested model 'nope' is not available"},
		{"RepositoryIndex", &pb.RepositoryIndexRequest{RepositoryName: "r"}, "Unimplemented: 'repository_name' specification is not supported"},
		{
			"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{RepositoryName: "r"},
			"Unimplemented: 'repository_name' specification is not supported",
		},
		{
			"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{ModelName: "m", Parameters: parameters{"config": number}},
			"InvalidArgument: invalid value type for load parameter 'config', expected string_param.",
		},
		{
			"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{ModelName: "m", Parameters: parameters{"file:1/m": text}},
			"InvalidArgument: invalid value type for load parameter 'file:1/m', expected bytes_param.",
		},
		{
			"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{ModelName: "m", Parameters: parameters{"zz": text}},
			"InvalidArgument: unrecognized load parameter 'zz'.",
		},
		{
			"RepositoryModelLoad", &pb.RepositoryModelLoadRequest{ModelName: "fp32"},
			"Unavailable: explicit model load / unload is not allowed if polling is enabled",
		},
		{
			"RepositoryModelUnload", &pb.RepositoryModelUnloadRequest{ModelName: "m", Parameters: parameters{"unload_dependents": text}},
			"InvalidArgument: invalid value type for 'unload_dependents' parameter, expected bool_param.",
		},
		{
			"RepositoryModelUnload", &pb.RepositoryModelUnloadRequest{ModelName: "fp32", Parameters: parameters{"other": text}},
			"Unavailable: explicit model load / unload is not allowed if polling is enabled",
		},
		{"SystemSharedMemoryStatus", &pb.SystemSharedMemoryStatusRequest{}, "OK"},
		{
			"SystemSharedMemoryRegister", &pb.SystemSharedMemoryRegisterRequest{Name: "r"},
			"InvalidArgument: cannot register shared memory region 'r' - invalid shm key ''",
		},
		{"SystemSharedMemoryUnregister", &pb.SystemSharedMemoryUnregisterRequest{}, "OK"},
		{"CudaSharedMemoryStatus", &pb.CudaSharedMemoryStatusRequest{}, "OK"},
		{
			"CudaSharedMemoryRegister", &pb.CudaSharedMemoryRegisterRequest{Name: "r"},
			"InvalidArgument: 'raw_handle' must be a valid cudaIpcMemHandle_t of 64 bytes, got 0",
		},
		{"CudaSharedMemoryUnregister", &pb.CudaSharedMemoryUnregisterRequest{}, "OK"},
	}
	for _, tt := range tests {
		// What comes back on success is of no interest here.
		_, err := invoke[pb.ServerLiveRequest](f, tt.method, tt.request)
		if got := words(err); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.method, got, tt.want)
		}
	}
}

func TestIndexAndStatistics(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	index, err := invoke[pb.RepositoryIndexResponse](f, "RepositoryIndex", &pb.RepositoryIndexRequest{Ready: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range index.Models {
		names = append(names, m.Name+" "+m.Version+" "+m.State)
	}
	if diff := cmp.Diff([]string{"batched 1 READY", "fp32 3 READY", "int32 1 READY", "many 1 READY", "text 1 READY", "wide 1 READY"},
		names); diff != "" {
		t.Error(diff)
	}
	if _, err := f.infer(request("int32", "", 1)); err != nil {
		t.Fatal(err)
	}
	send(t, f.open(t.Context()))
	p, err := invoke[pb.ModelStatisticsResponse](f, "ModelStatistics", &pb.ModelStatisticsRequest{Name: "int32"})
	if err != nil || len(p.ModelStats) != 1 {
		t.Fatal(p, err)
	}
	m := p.ModelStats[0]
	if m.Name != "int32" || m.Version != "1" || m.InferenceCount != 1 || m.ExecutionCount != 1 || m.InferenceStats.Success.Count != 1 ||
		len(m.BatchStats) != 1 || m.BatchStats[0].BatchSize != 1 || m.LastInference == 0 {
		t.Errorf("got %v", m)
	}
	all, err := invoke[pb.ModelStatisticsResponse](f, "ModelStatistics", &pb.ModelStatisticsRequest{})
	if err != nil || len(all.ModelStats) != len(names) {
		t.Errorf("got %d models, %v", len(all.GetModelStats()), err)
	}
}

func TestLogSettings(t *testing.T) {
	log, err := logging.Open(logging.DefaultSettings(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, &nesotest.Echo{}, Options{Log: log})
	type value = pb.LogSettingsRequest_SettingValue
	flag := &value{ParameterChoice: &pb.LogSettingsRequest_SettingValue_BoolParam{BoolParam: false}}
	level := &value{ParameterChoice: &pb.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: 2}}
	text := &value{ParameterChoice: &pb.LogSettingsRequest_SettingValue_StringParam{StringParam: "zz"}}
	set := func(name string, v *value) (*pb.LogSettingsResponse, error) {
		return invoke[pb.LogSettingsResponse](f, "LogSettings", &pb.LogSettingsRequest{Settings: map[string]*value{name: v}})
	}
	for _, tt := range []struct {
		name  string
		value *value
		want  string
	}{
		{"log_info", level, "InvalidArgument: expect boolean for 'log_info'"},
		{"log_verbose_level", flag, "InvalidArgument: expect int32 for 'log_verbose_level'"},
		{"log_format", flag, "InvalidArgument: expect string for 'log_format'"},
		{"log_format", text, "InvalidArgument: invalid argument for log_format, got: zz"},
		{"log_file", text, "Unimplemented: log file location can not be updated through network protocol"},
		{"log_error", flag, "OK"},
		{"log_verbose_level", level, "OK"},
	} {
		if _, err := set(tt.name, tt.value); words(err) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, words(err), tt.want)
		}
	}
	p, err := invoke[pb.LogSettingsResponse](f, "LogSettings", &pb.LogSettingsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Settings
	if len(s) != 6 || s["log_error"].GetBoolParam() || !s["log_info"].GetBoolParam() || !s["log_warning"].GetBoolParam() ||
		s["log_verbose_level"].GetUint32Param() != 2 || s["log_format"].GetStringParam() != "default" || s["log_file"].GetStringParam() != "" {
		t.Errorf("got %v", s)
	}
}
