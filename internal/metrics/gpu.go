package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nesoserve/neso/internal/gpu"
)

// Triton's families; the label is the device's UUID.
var (
	gpuUtilization = gpuDesc("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)")
	gpuMemoryTotal = gpuDesc("nv_gpu_memory_total_bytes", "GPU total memory, in bytes")
	gpuMemoryUsed  = gpuDesc("nv_gpu_memory_used_bytes", "GPU used memory, in bytes")
	gpuPowerUsage  = gpuDesc("nv_gpu_power_usage", "GPU power usage in watts")
	gpuPowerLimit  = gpuDesc("nv_gpu_power_limit", "GPU power management limit in watts")
	gpuEnergy      = gpuDesc("nv_energy_consumption", "GPU energy consumption in joules since the server started")
)

func gpuDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"gpu_uuid"}, nil)
}

// collectGPUs leaves out what a device does not tell.
func collectGPUs(ch chan<- prometheus.Metric, all []gpu.Reading) {
	for i := range all {
		r := &all[i]
		for _, m := range []struct {
			desc  *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{gpuUtilization, prometheus.GaugeValue, r.Utilization},
			{gpuMemoryTotal, prometheus.GaugeValue, r.MemoryTotal},
			{gpuMemoryUsed, prometheus.GaugeValue, r.MemoryUsed},
			{gpuPowerUsage, prometheus.GaugeValue, r.PowerUsage},
			{gpuPowerLimit, prometheus.GaugeValue, r.PowerLimit},
			{gpuEnergy, prometheus.CounterValue, r.Energy},
		} {
			if m.value >= 0 {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, valid(r.UUID))
			}
		}
	}
}
