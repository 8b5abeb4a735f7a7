package draft

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// Idle is a field that a configuration sets and that has no effect here, with the
// reason.
type Idle struct{ Field, Because string }

// inServer are the backends whose threads are not an instance's own, nor in a
// process of its own.
var inServer = []string{"openvino", "fil", "identity", "repeat", "square", "sleep", "error"}

// Idle returns what the draft asks for and gets no effect from.
func (d *Draft) Idle() []Idle {
	var all []Idle
	add := func(field, because string) { all = append(all, Idle{field, because}) }
	onnx := d.Backend() == "onnxruntime"
	for i, g := range d.pb.InstanceGroup {
		at := "instance_group[" + strconv.Itoa(i) + "]"
		if g.HostPolicy != "" && slices.Contains(inServer, d.Backend()) &&
			!strings.EqualFold(d.pb.Parameters["isolation"].GetStringValue(), "process") {
			because := "the backend '" + d.Backend() +
				"' runs in the server, on threads that are no instance's own. taskset, numactl or a cpuset of the container binds all of it"
			if d.Backend() == "openvino" || d.Backend() == "fil" {
				because += ", the parameter isolation: process this model"
			}
			add(at+".host_policy", because)
		}
		if len(g.SecondaryDevices) > 0 {
			add(at+".secondary_devices", "no backend uses such devices")
		}
	}
	for i, m := range d.pb.GetModelMetrics().GetMetricControl() {
		if family := m.GetMetricIdentifier().GetFamily(); family != "" && family != modelconfig.FirstResponseFamily {
			add("model_metrics.metric_control["+strconv.Itoa(i)+"]",
				"metric family '"+family+"' is not a customizable metric, only "+modelconfig.FirstResponseFamily+" is")
		}
	}
	if o := d.pb.Optimization; o != nil {
		all = append(all, idleOptimization(o, d.Backend(), onnx)...)
	}
	return all
}

func idleOptimization(o *inferencepb.ModelOptimizationPolicy, backend string, onnx bool) []Idle {
	var all []Idle
	add := func(set bool, field, because string) {
		if set {
			all = append(all, Idle{"optimization." + field, because})
		}
	}
	add(o.Graph != nil && !onnx, "graph", "the backend '"+backend+"' has no levels of optimization")
	add(o.Priority != inferencepb.ModelOptimizationPolicy_PRIORITY_DEFAULT, "priority",
		"threads have the same priority on the processors, as in Triton (nice 0): "+
			"rate_limiter.priority and the levels of dynamic_batching order requests")
	add(o.Cuda != nil, "cuda", "graphs and events of CUDA are the library's own affair: give it its own options as parameters")
	add(len(o.GetExecutionAccelerators().GetGpuExecutionAccelerator()) > 0 && !onnx,
		"execution_accelerators.gpu_execution_accelerator", "only the backend 'onnxruntime' takes accelerators")
	add(len(o.GetExecutionAccelerators().GetCpuExecutionAccelerator()) > 0 && !onnx,
		"execution_accelerators.cpu_execution_accelerator", "only the backend 'onnxruntime' takes accelerators")
	add(o.GatherKernelBufferThreshold > 0, "gather_kernel_buffer_threshold", "inputs are not gathered by a kernel")
	add(o.EagerBatching, "eager_batching", "a batch is closed when an instance is free, and takes no time to prepare")
	// The default of both is true.
	pinned := func(p *inferencepb.ModelOptimizationPolicy_PinnedMemoryBuffer, field string) {
		add(p != nil && !p.Enable, field, "there is no pool of pinned memory")
	}
	pinned(o.InputPinnedMemory, "input_pinned_memory")
	pinned(o.OutputPinnedMemory, "output_pinned_memory")
	return all
}

// String is the text for people.
func (i Idle) String() string {
	return strings.Join([]string{i.Field, "has no effect:", i.Because}, " ")
}
