package neso

import (
	"cmp"
	"log/slog"

	"github.com/nesoserve/neso/internal/gpu"
)

// GPU says which NVIDIA GPUs models may use. The zero value takes all that the
// driver has; a machine without a driver has none.
type GPU struct {
	// Disabled leaves them all alone: KIND_AUTO means the CPU.
	Disabled bool
	// Visible is what CUDA_VISIBLE_DEVICES says to the libraries of the process,
	// so that both count alike; nil when it is not set. A device's number is that of
	// the driver's tools (CUDA_DEVICE_ORDER=PCI_BUS_ID).
	Visible *string
	// MinComputeCapability is the CUDA compute capability that a device must have;
	// default 6.0, negative takes any.
	MinComputeCapability float64
}

// open returns the driver, nil without GPUs.
func (g *GPU) open(log *slog.Logger) (*gpu.Driver, gpu.Set) {
	least := cmp.Or(g.MinComputeCapability, gpu.DefaultLeast)
	if g.Disabled {
		return nil, gpu.Set{Least: least}
	}
	d, err := gpu.Open(gpu.Options{Visible: g.Visible})
	if err != nil {
		log.Debug("no GPUs", "reason", err)
		return nil, gpu.Set{Least: least}
	}
	set := gpu.Of(d.Devices(), least)
	for i, device := range d.Devices() {
		log.Info("GPU", "number", i, "name", device.Name, "uuid", device.UUID, "compute_capability", device.Capability(), "used",
			device.AtLeast(least))
	}
	return d, set
}
