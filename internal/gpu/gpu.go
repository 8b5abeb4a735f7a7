package gpu

import (
	"errors"
	"fmt"
	"sync"
)

// Device is one GPU.
type Device struct {
	// Number is what CUDA, and with it a model configuration, calls the device: its
	// place among those that the process may use.
	Number int
	// UUID names it for metrics, for example "GPU-8a44...".
	UUID string
	// Name is the product's, for example "NVIDIA L4".
	Name string
	// Major and Minor are its CUDA compute capability.
	Major, Minor int

	handle uintptr
}

// Capability is the compute capability as cc_model_filenames has it: "8.9".
func (d *Device) Capability() string { return fmt.Sprintf("%d.%d", d.Major, d.Minor) }

// AtLeast reports whether the compute capability is that or more.
func (d *Device) AtLeast(least float64) bool {
	return float64(d.Major)+float64(d.Minor)/10 >= least-1e-9
}

// Set is the GPUs that models may use.
type Set struct {
	Devices []Device
	// Least is the compute capability that a device must have to be in the set.
	Least float64
}

// DefaultLeast is Triton's.
const DefaultLeast = 6.0

// Of returns the devices with at least that compute capability.
func Of(all []Device, least float64) Set {
	s := Set{Least: least}
	for i := range all {
		if all[i].AtLeast(least) {
			s.Devices = append(s.Devices, all[i])
		}
	}
	return s
}

// Reading is what one GPU does at the moment. A field is negative where the
// device does not tell.
type Reading struct {
	UUID string
	// Utilization is the busy fraction of the last moments, 0 to 1.
	Utilization float64
	// MemoryTotal and MemoryUsed are in bytes.
	MemoryTotal, MemoryUsed float64
	// PowerUsage and PowerLimit are in watts.
	PowerUsage, PowerLimit float64
	// Energy is in joules since Open.
	Energy float64
}

// Options say where to look. The zero value takes the system's library and all
// devices.
type Options struct {
	// Library is the file of NVML, CUDA that of the CUDA driver, without which a
	// GPU can be watched and not used; empty means the system's.
	Library, CUDA string
	// Visible is CUDA_VISIBLE_DEVICES, nil when it is not set.
	Visible *string
}

// ErrNone says that there is no GPU that the process may use.
var ErrNone = errors.New("no GPU")

// Driver is the open library. It is safe for concurrent use.
type Driver struct {
	api     *api
	devices []Device
	started []float64 // energy at Open, by device

	mu     sync.Mutex
	closed bool
}

// Open opens the library and looks for devices. It fails with ErrNone when the
// library is there and no device is.
func Open(o Options) (*Driver, error) {
	a, err := openAPI(o.Library)
	if err != nil {
		return nil, err
	}
	devices, err := a.list(o.Visible)
	switch {
	case err != nil:
	case len(devices) == 0:
		err = ErrNone
	default:
		err = checkCUDA(o.CUDA)
	}
	if err != nil {
		a.shutdown()
		return nil, err
	}
	d := &Driver{api: a, devices: devices}
	for i := range devices {
		d.started = append(d.started, a.energy(devices[i].handle))
	}
	return d, nil
}

// Devices are those that the process may use, by their number.
func (d *Driver) Devices() []Device {
	if d == nil {
		return nil
	}
	return d.devices
}

// Read returns the numbers of each device; nil after Close and for a nil Driver.
func (d *Driver) Read() []Reading {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	all := make([]Reading, len(d.devices))
	for i := range d.devices {
		device := &d.devices[i]
		all[i] = d.api.read(device.handle)
		all[i].UUID = device.UUID
		if energy := d.api.energy(device.handle); energy >= 0 && d.started[i] >= 0 {
			all[i].Energy = max(0, energy-d.started[i])
		}
	}
	return all
}

// Close lets go of the library; it is safe to call twice, and for a nil Driver.
func (d *Driver) Close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.api.shutdown()
	}
}
