package grpcapi

import (
	"slices"
	"testing"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestTraceSettings(t *testing.T) {
	f := start(t, &nesotest.Echo{}, Options{})
	set := func(model, name string, values ...string) (*pb.TraceSettingResponse, error) {
		q := &pb.TraceSettingRequest{ModelName: model}
		if name != "" {
			q.Settings = map[string]*pb.TraceSettingRequest_SettingValue{name: {Value: values}}
		}
		return invoke[pb.TraceSettingResponse](f, "TraceSetting", q)
	}
	for _, tt := range []struct {
		model, name string
		values      []string
		want        string
	}{
		{"", "trace_rate", []string{"1", "2"}, "InvalidArgument: expect only 1 value for 'trace_rate'"},
		{"", "trace_rate", []string{"x"}, "InvalidArgument: Unable to parse 'trace_rate', got: x"},
		{"", "trace_count", []string{"-2"}, "InvalidArgument: Unable to parse 'trace_count'. Expecting value >= -1, got: -2"},
		{"", "trace_level", []string{"OFF", "MIN"}, "InvalidArgument: Expect only one trace level 'OFF' is specified"},
		{"", "trace_level", []string{"MIN"}, "InvalidArgument: Attempting to set invalid trace setting :trace file name is not given"},
		{"", "trace_file", nil, "Unimplemented: trace file location can not be updated through network protocol"},
		{"nope", "", nil, "InvalidArgument: Request for unknown model : nope"},
		{"nope", "trace_file", []string{"x"}, "InvalidArgument: Request for unknown model : nope"},
		{"", "trace_mode", []string{"x", "y"}, "OK"},
		{"", "log_frequency", []string{"5"}, "OK"},
		{"", "trace_rate", []string{"7"}, "OK"},
		{"", "log_frequency", nil, "OK"},
	} {
		if _, err := set(tt.model, tt.name, tt.values...); words(err) != tt.want {
			t.Errorf("%s %v: got %s, want %s", tt.name, tt.values, words(err), tt.want)
		}
	}
	p, err := set("", "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for name, v := range p.Settings {
		got[name] = v.Value
	}
	for name, want := range map[string]string{
		"trace_level": "OFF", "trace_rate": "7", "trace_count": "-1", "log_frequency": "0",
		"trace_file": "", "trace_mode": "triton",
	} {
		if !slices.Equal(got[name], []string{want}) {
			t.Errorf("%s: %v, want %s", name, got[name], want)
		}
	}
}
