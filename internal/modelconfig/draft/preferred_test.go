package draft

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// What a backend prefers fills in what the configuration leaves open, as far as the
// machine has it.
func TestPreferredGroups(t *testing.T) {
	onGPUs := backend.PreferredGroup{Kind: "KIND_GPU", Count: 2, Devices: []int{5, 1}}
	onModel := backend.PreferredGroup{Kind: "KIND_MODEL", Count: 3}
	three := modelconfig.InstanceGroup{Name: "m", Kind: "KIND_MODEL", Count: 3}
	for _, test := range []struct {
		name, groups string
		prefers      []backend.PreferredGroup
		gpus         []int
		want         modelconfig.InstanceGroup
	}{
		{"nothing", "", nil, nil, modelconfig.InstanceGroup{Name: "m", Kind: "KIND_CPU", Count: 1}},
		{"the first", "", []backend.PreferredGroup{onModel, onGPUs}, []int{1}, three},
		{"no GPU", "", []backend.PreferredGroup{onGPUs, onModel}, nil, three},
		{"not these", "", []backend.PreferredGroup{onGPUs, onModel}, []int{0}, three},
		{
			"those there are", "",
			[]backend.PreferredGroup{onGPUs, onModel},
			[]int{0, 1},
			modelconfig.InstanceGroup{Name: "m", Kind: "KIND_GPU", Count: 2, GPUs: []int{1}},
		},
		{
			"automatic", "",
			[]backend.PreferredGroup{{Kind: "KIND_AUTO", Count: 4, Devices: []int{9}}},
			[]int{0},
			modelconfig.InstanceGroup{Name: "m", Kind: "KIND_GPU", Count: 4, GPUs: []int{0}},
		},
		{
			"a group of the kind", "instance_group { kind: KIND_GPU }",
			[]backend.PreferredGroup{onModel, onGPUs},
			[]int{0, 1},
			modelconfig.InstanceGroup{Name: "m_0", Kind: "KIND_GPU", Count: 2, GPUs: []int{1}},
		},
		{
			"a group of another kind", "instance_group { kind: KIND_CPU }",
			[]backend.PreferredGroup{onModel},
			nil,
			modelconfig.InstanceGroup{Name: "m_0", Kind: "KIND_CPU", Count: 1},
		},
		{
			"a group that says it", "instance_group { kind: KIND_MODEL count: 7 }",
			[]backend.PreferredGroup{onModel},
			nil,
			modelconfig.InstanceGroup{Name: "m_0", Kind: "KIND_MODEL", Count: 7},
		},
		{"too many", "", []backend.PreferredGroup{{Kind: "KIND_CPU", Count: 1 << 30}}, nil, modelconfig.InstanceGroup{
			Name: "m", Kind: "KIND_CPU", Count: modelconfig.MaxInstances,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := Parse([]byte("name: \"m\" backend: \"b\" "+test.groups), "config.pbtxt")
			if err != nil {
				t.Fatal(err)
			}
			set := gpu.Set{Least: gpu.DefaultLeast}
			for _, id := range test.gpus {
				set.Devices = append(set.Devices, gpu.Device{Number: id, Major: 9})
			}
			if lacks := test.name != "a group that says it"; d.LacksInstances() != lacks {
				t.Errorf("lacks instances: %v", !lacks)
			}
			if err := d.NormalizeInstances(set, backend.Capabilities{Preferred: test.prefers}); err != nil {
				t.Fatal(err)
			}
			c := d.pb.InstanceGroup
			if len(c) != 1 {
				t.Fatalf("%d groups", len(c))
			}
			got := modelconfig.InstanceGroup{Name: c[0].Name, Kind: c[0].Kind.String(), Count: int(c[0].Count)}
			for _, id := range c[0].Gpus {
				got.GPUs = append(got.GPUs, int(id))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
