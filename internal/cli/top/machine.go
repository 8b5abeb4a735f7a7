package top

import (
	"fmt"
	"math"
	"strings"
)

// Metrics that Machine reads.
const (
	serverCPU    = "process_cpu_seconds_total"
	serverMemory = "process_resident_memory_bytes"
	machineCPU   = "nv_cpu_utilization"
	machineUsed  = "nv_cpu_memory_used_bytes"
	machineTotal = "nv_cpu_memory_total_bytes"
	gpuBusy      = "nv_gpu_utilization"
	gpuUsed      = "nv_gpu_memory_used_bytes"
	gpuTotal     = "nv_gpu_memory_total_bytes"
	gpuPower     = "nv_gpu_power_usage"
	gpuLabel     = "gpu_uuid"
)

// mostGPUs bounds how many are shown.
const mostGPUs = 64

// Names are the metrics that a Look needs.
func Names() []string {
	return []string{
		Pending, Buckets, Workers, serverCPU, serverMemory, machineCPU, machineUsed, machineTotal, gpuBusy, gpuUsed, gpuTotal, gpuPower,
	}
}

// Machine says what the server, the machine and its GPUs were busy with between two
// looks, as far as the metrics tell; empty if they do not.
func Machine(before, now Look) string {
	var parts []string
	cpu := increase(first(before.Series, serverCPU), first(now.Series, serverCPU)) / now.At.Sub(before.At).Seconds()
	if memory := first(now.Series, serverMemory); !math.IsNaN(cpu) && !math.IsInf(cpu, 0) && !math.IsNaN(memory) {
		parts = append(parts, fmt.Sprintf("server %.2f CPUs, %s", cpu, amount(memory)))
	}
	busy, used, total := first(now.Series, machineCPU), first(now.Series, machineUsed), first(now.Series, machineTotal)
	if !math.IsNaN(busy) && !math.IsNaN(used) && !math.IsNaN(total) {
		parts = append(parts, fmt.Sprintf("machine %.0f %%, %s of %s", 100*busy, amount(used), amount(total)))
	}
	for i, id := range gpus(now.Series) {
		of := func(name string) float64 {
			for _, s := range now.Series {
				if s.Name == name && s.Labels[gpuLabel] == id {
					return s.Value
				}
			}
			return math.NaN()
		}
		part := fmt.Sprintf("GPU %d", i)
		if v := of(gpuBusy); !math.IsNaN(v) {
			part += fmt.Sprintf(" %.0f %%", 100*v)
		}
		if used, total := of(gpuUsed), of(gpuTotal); !math.IsNaN(used) && !math.IsNaN(total) {
			part += fmt.Sprintf(", %s of %s", amount(used), amount(total))
		}
		if v := of(gpuPower); !math.IsNaN(v) {
			part += fmt.Sprintf(", %.0f W", v)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// gpus are the GPUs in the order of the metrics.
func gpus(all []Series) (ids []string) {
	for _, s := range all {
		if s.Name == gpuTotal && len(ids) < mostGPUs {
			ids = append(ids, s.Labels[gpuLabel])
		}
	}
	return ids
}

func first(all []Series, name string) float64 {
	for _, s := range all {
		if s.Name == name {
			return s.Value
		}
	}
	return math.NaN()
}

func amount(bytes float64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.0f MB", bytes/1e6)
	}
	return fmt.Sprintf("%.1f GB", bytes/1e9)
}
