package modelconfig

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// Idle is a field that a configuration sets and that has no effect here, with the
// reason.
type Idle struct{ Field, Because string }

// stub is the file that Triton runs Python models with, where a model brings it.
const stub = "triton_python_backend_stub"

// Idle returns what the draft asks for and gets no effect from. directory is the
// model's; "" where it says nothing about the model.
func (d *Draft) Idle(directory string) []Idle {
	var all []Idle
	add := func(field, because string) { all = append(all, Idle{field, because}) }
	onnx := d.Backend() == "onnxruntime"
	for i, g := range d.pb.InstanceGroup {
		at := "instance_group[" + strconv.Itoa(i) + "]"
		if g.HostPolicy != "" {
			add(at+".host_policy", "instances are not bound to processors: taskset, numactl or a cpuset of the container does that for the server and its workers")
		}
		if len(g.SecondaryDevices) > 0 {
			add(at+".secondary_devices", "no backend uses such devices")
		}
	}
	for i, m := range d.pb.GetModelMetrics().GetMetricControl() {
		if family := m.GetMetricIdentifier().GetFamily(); family != "" && family != FirstResponseFamily {
			add("model_metrics.metric_control["+strconv.Itoa(i)+"]", "metric family '"+family+"' is not a customizable metric, only "+FirstResponseFamily+" is")
		}
	}
	if o := d.pb.Optimization; o != nil {
		all = append(all, idleOptimization(o, d.Backend(), onnx)...)
	}
	if directory != "" {
		if _, err := os.Stat(filepath.Join(directory, stub)); err == nil {
			add(stub, "Python models run in an interpreter, by EXECUTION_ENV_PATH or --python, and need no stub")
		}
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
	add(o.Priority != inferencepb.ModelOptimizationPolicy_PRIORITY_DEFAULT, "priority", "models have the same priority on the processors: rate_limiter.priority and the levels of dynamic_batching order requests")
	add(o.Cuda != nil, "cuda", "graphs and events of CUDA are the library's own affair: give it its own options as parameters")
	add(len(o.GetExecutionAccelerators().GetGpuExecutionAccelerator()) > 0 && !onnx, "execution_accelerators.gpu_execution_accelerator", "only the backend 'onnxruntime' takes accelerators")
	add(len(o.GetExecutionAccelerators().GetCpuExecutionAccelerator()) > 0 && !onnx, "execution_accelerators.cpu_execution_accelerator", "only the backend 'onnxruntime' takes accelerators")
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
