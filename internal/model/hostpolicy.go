package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// HostPolicies are the settings of --host-policy, by policy and setting.
type HostPolicies map[string]map[string]string

// of returns where an instance is to run. The group's policy comes first. Without
// one, the policy of the instance's kind holds: "cpu", "model" or "gpu_0". Without
// either it returns nil.
func (all HostPolicies) of(name string, in *backend.InstanceConfig) (*backend.HostPolicy, error) {
	if name == "" {
		name = strings.ToLower(strings.TrimPrefix(in.Kind, "KIND_"))
		if in.Kind == "KIND_GPU" {
			name = fmt.Sprintf("gpu_%d", in.Device)
		}
	}
	settings := all[name]
	if len(settings) == 0 {
		return nil, nil
	}
	p := &backend.HostPolicy{Name: name, Settings: settings}
	if text, ok := settings["numa-node"]; ok {
		node, err := strconv.Atoi(text)
		if err != nil || node < 0 || node > math.MaxInt32 {
			return nil, backend.Errorf(backend.InvalidArg, "host policy '%s': numa-node is '%s', expected the number of a node", name, text)
		}
		p.Node = &node
	}
	if text, ok := settings["cpu-cores"]; ok {
		var err error
		if p.Processors, err = parseProcessors(text); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// locateInstances finds the instances of the version and tells the backend where
// they are to run.
func (m *Model) locateInstances(o *Options) (err error) {
	m.policies = o.HostPolicies
	if m.planned, err = m.instancesOf(m.config); err != nil {
		return err
	}
	o.BackendConfig.Instances = slices.Clone(o.BackendConfig.Instances)
	for i := range m.planned { // in the same order
		o.BackendConfig.Instances[i].HostPolicy = m.planned[i].HostPolicy
	}
	return nil
}

// maxProcessor bounds the numbers of processors: Linux knows of no more.
const maxProcessor = 8191

// parseProcessors reads ranges, as in 0-3,8-8.
func parseProcessors(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		low, high, ok := strings.Cut(part, "-")
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if !ok || err != nil || err2 != nil || from < 0 || to < from || to > maxProcessor || len(all) > maxProcessor {
			return nil, backend.Errorf(backend.InvalidArg,
				"host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got %s", text)
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}
