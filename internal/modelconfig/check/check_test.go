package check

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// TestConfig: what is asked for, in Triton's order. The texts are held against
// Triton's in package draft, where all steps of a load come before.
func TestConfig(t *testing.T) {
	pb := &inferencepb.ModelConfig{}
	if err := prototext.Unmarshal([]byte(`name: "m" backend: "python" max_batch_size: -1 input { name: "A" dims: 0 }
output { name: "B" data_type: TYPE_FP32 dims: 1 label_filename: "../x" }`), pb); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tensors, load bool
		want          string
	}{
		{false, false, "max_batch_size"},
		{true, false, "max_batch_size input[0].data_type input[0].dims[0]"},
		{true, true, "max_batch_size input[0].data_type input[0].dims[0] output[0].label_filename"},
	} {
		var fields []string
		for _, f := range Config(pb, &fault.Source{File: "f"}, c.tensors, c.load) {
			if f.File != "f" || f.Text == "" {
				t.Errorf("got %+v", f)
			}
			fields = append(fields, f.Path)
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("tensors %v, load %v: got %s, want %s", c.tensors, c.load, got, c.want)
		}
	}
}

func TestInstances(t *testing.T) {
	pb := &inferencepb.ModelConfig{Name: "m", InstanceGroup: []*inferencepb.ModelInstanceGroup{
		{Name: "g", Kind: inferencepb.ModelInstanceGroup_KIND_GPU, Count: 1, Gpus: []int32{0, 7}},
		{Name: "h", Kind: inferencepb.ModelInstanceGroup_KIND_CPU, Count: 1, Gpus: []int32{0}},
	}}
	from := &fault.Source{Gaps: fault.NewGaps()}
	want := `instance group g of model m specifies invalid or unsupported gpu id 7. GPUs with at least the minimum required CUDA compute compatibility of 6.000000 are: 0 (field instance_group[0].gpus[1]: expected one of the GPUs above, found 7)
instance group h of model m has kind KIND_CPU but specifies one or more GPUs (field instance_group[1].gpus: expected no gpus, found 0)`
	if got := Instances(pb, from, []int{0}, 6).Error(); got != want {
		t.Errorf("got %s", got)
	}
	from.Gaps.Add("instance_group[1].kind")
	if faults := Instances(pb, from, []int{0}, 6); len(faults) != 1 {
		t.Errorf("of a group whose kind cannot be read: %v", faults)
	}
}

func TestLocal(t *testing.T) {
	for path, want := range map[string]bool{
		"": true, "a": true, "a/../b": true, "a/../../b": false, "..": false, "/a": false, `\a`: false, `..\a`: false, `a\..\..\b`: false,
		"c:/x": false, "a\x00b": false, "...": true,
	} {
		if Local(path) != want {
			t.Errorf("%q", path)
		}
	}
}
