package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
)

func TestHostPolicies(t *testing.T) {
	two := 2
	all := HostPolicies{
		"near": {"cpu-cores": "0-2,7-7", "numa-node": "2"}, "cpu": {"cpu-cores": "1-1"}, "gpu_1": {"numa-node": "2"}, "one": {"cpu-cores": "3"},
		"back": {"cpu-cores": "3-1"}, "large": {"cpu-cores": "0-999999999"}, "odd": {"numa-node": "x"},
	}
	const format = "host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got "
	for _, c := range []struct {
		name, kind string
		device     int
		want       *backend.HostPolicy
		fails      string
	}{
		{name: "near", kind: "KIND_CPU", want: &backend.HostPolicy{Name: "near", Processors: []int{0, 1, 2, 7}, Node: &two}},
		{kind: "KIND_CPU", want: &backend.HostPolicy{Name: "cpu", Processors: []int{1}}},
		{kind: "KIND_GPU", device: 1, want: &backend.HostPolicy{Name: "gpu_1", Node: &two}},
		{kind: "KIND_GPU"},
		{kind: "KIND_MODEL"},
		{name: "unknown", kind: "KIND_CPU"},
		{name: "one", fails: format + "3"},
		{name: "back", fails: format + "3-1"},
		{name: "large", fails: format + "0-999999999"},
		{name: "odd", fails: "host policy 'odd': numa-node is 'x', expected the number of a node"},
	} {
		got, err := all.of(c.name, &backend.InstanceConfig{Kind: c.kind, Device: c.device})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if c.want != nil {
			c.want.Settings = all[c.want.Name] // as they were given
		}
		if d := cmp.Diff(got, c.want); d != "" || text != c.fails {
			t.Errorf("%s %s: %s\n%s", c.name, c.kind, text, d)
		}
	}
}
