package plainjson

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
)

func TestMarshal(t *testing.T) {
	for _, c := range []struct {
		m    proto.Message
		want string
	}{
		{
			&inferencepb.ModelMetadataResponse_TensorMetadata{Name: "a\"\n", Shape: []int64{-1, 1 << 60}},
			`{"name":"a\"\n","datatype":"","shape":[-1,1152921504606846976]}`,
		},
		{
			&inferencepb.ModelStatisticsResponse{ModelStats: []*inferencepb.ModelStatistics{{
				LastInference: math.MaxUint64, ResponseStats: map[string]*inferencepb.InferResponseStatistics{
					"1": {Fail: &inferencepb.StatisticDuration{Count: 2}}, "0": {},
				},
			}}},
			`{"model_stats":[{"name":"","version":"","last_inference":18446744073709551615,"inference_count":0,"execution_count":0,` +
				`"response_stats":{"0":{},"1":{"fail":{"count":2,"ns":0}}},"batch_stats":[],"memory_usage":[]}]}`,
		},
		{
			&inferencepb.InferTensorContents{
				BoolContents: []bool{true}, Fp32Contents: []float32{0.1, float32(math.Inf(1))}, Fp64Contents: []float64{1e300, math.NaN()},
				BytesContents: [][]byte{{255}}, IntContents: []int32{-1}, UintContents: []uint32{1 << 31},
			},
			`{"bool_contents":[true],"int_contents":[-1],"int64_contents":[],"uint_contents":[2147483648],"uint64_contents":[],` +
				`"fp32_contents":[0.1,"+Inf"],"fp64_contents":[1e+300,"NaN"],"bytes_contents":["/w=="]}`,
		},
		{
			&inferencepb.InferParameter{ParameterChoice: &inferencepb.InferParameter_Int64Param{}},
			`{"int64_param":0}`,
		},
	} {
		if got := string(Marshal(c.m)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestEnums(t *testing.T) {
	if got := string(Marshal(&inferencepb.ModelInput{DataType: inferencepb.DataType_TYPE_FP32})); got[:45] !=
		`{"name":"","data_type":"TYPE_FP32","format":"` {
		t.Errorf("got %s", got)
	}
	if got := string(Marshal(&inferencepb.ModelInput{DataType: 99})); got[:26] != `{"name":"","data_type":99,` {
		t.Errorf("an unknown one: got %s", got)
	}
}
