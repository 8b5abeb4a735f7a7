//go:build linux && (amd64 || arm64) && !nopurego

package gpu

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/nesoserve/neso/internal/processors"
)

// defaultLibrary comes with the driver.
const defaultLibrary = "libnvidia-ml.so.1"

// maxDevices is more than a machine has.
const maxDevices = 1024

// api are the functions of the library.
type api struct {
	end, count, handle, uuid, name, capability, memory, utilization, powerUsage, powerLimit, totalEnergy function
}

// function is a C function that returns an nvmlReturn_t.
type function struct {
	name    string
	address uintptr
}

// call calls f. A uintptr made from an unsafe.Pointer in the argument list
// keeps what it points to in place until the call returns.
//
//go:uintptrescapes
func (f function) call(args ...uintptr) error {
	r, _, _ := purego.SyscallN(f.address, args...)
	if code := uint32(r); code != 0 {
		return fmt.Errorf("%s: NVML error %d", f.name, code)
	}
	return nil
}

func openAPI(path string) (*api, error) {
	if path == "" {
		path = defaultLibrary
	}
	runtime.LockOSThread() // its error is this thread's
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	runtime.UnlockOSThread()
	if err != nil {
		return nil, err
	}
	processors.Keep()
	a := &api{}
	var begin function
	for _, f := range []struct {
		to   *function
		name string
	}{
		{&begin, "nvmlInit_v2"},
		{&a.end, "nvmlShutdown"},
		{&a.count, "nvmlDeviceGetCount_v2"},
		{&a.handle, "nvmlDeviceGetHandleByIndex_v2"},
		{&a.uuid, "nvmlDeviceGetUUID"},
		{&a.name, "nvmlDeviceGetName"},
		{&a.capability, "nvmlDeviceGetCudaComputeCapability"},
		{&a.memory, "nvmlDeviceGetMemoryInfo"},
		{&a.utilization, "nvmlDeviceGetUtilizationRates"},
		{&a.powerUsage, "nvmlDeviceGetPowerUsage"},
		{&a.powerLimit, "nvmlDeviceGetEnforcedPowerLimit"},
		{&a.totalEnergy, "nvmlDeviceGetTotalEnergyConsumption"},
	} {
		address, err := purego.Dlsym(library, f.name)
		if err != nil || address == 0 {
			return nil, fmt.Errorf("%s has no function %s", path, f.name)
		}
		*f.to = function{f.name, address}
	}
	if err := begin.call(); err != nil {
		return nil, err
	}
	return a, nil
}

// checkCUDA looks for the driver's library; in some containers it is left out.
func checkCUDA(path string) error {
	if path == "" {
		path = "libcuda.so.1"
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		return fmt.Errorf("there are GPUs, but CUDA's driver is not usable: %w", err)
	}
	return nil
}

func (a *api) shutdown() { _ = a.end.call() } // there is nobody to tell

// list returns the devices that CUDA shows to the process. One of which NVML
// cannot say what it is, is left out.
func (a *api) list(value *string) ([]Device, error) {
	n := new(uint32)
	if err := a.count.call(uintptr(unsafe.Pointer(n))); err != nil {
		return nil, err
	}
	var all []Device
	for i := range min(*n, maxDevices) {
		handle := new(uintptr)
		if a.handle.call(uintptr(i), uintptr(unsafe.Pointer(handle))) != nil {
			continue
		}
		d := Device{handle: *handle, UUID: a.text(a.uuid, *handle), Name: a.text(a.name, *handle)}
		major, minor := new(int32), new(int32)
		if a.capability.call(*handle, uintptr(unsafe.Pointer(major)), uintptr(unsafe.Pointer(minor))) != nil || d.UUID == "" {
			continue
		}
		d.Major, d.Minor = int(*major), int(*minor)
		all = append(all, d)
	}
	return visible(all, value), nil
}

// text reads a string of at most 95 bytes.
func (a *api) text(f function, handle uintptr) string {
	b := new([96]byte)
	if f.call(handle, uintptr(unsafe.Pointer(b)), uintptr(len(b))) != nil {
		return ""
	}
	text, _, _ := bytes.Cut(b[:], []byte{0})
	return string(text)
}

func (a *api) read(handle uintptr) Reading {
	r := Reading{Utilization: -1, MemoryTotal: -1, MemoryUsed: -1, PowerUsage: -1, PowerLimit: -1, Energy: -1}
	memory, rates, milliwatts := new([3]uint64), new([2]uint32), new(uint32) // total, free, used; GPU, memory
	if a.memory.call(handle, uintptr(unsafe.Pointer(memory))) == nil {
		r.MemoryTotal, r.MemoryUsed = float64(memory[0]), float64(memory[2])
	}
	if a.utilization.call(handle, uintptr(unsafe.Pointer(rates))) == nil {
		r.Utilization = float64(rates[0]) / 100
	}
	if a.powerUsage.call(handle, uintptr(unsafe.Pointer(milliwatts))) == nil {
		r.PowerUsage = float64(*milliwatts) / 1000
	}
	if a.powerLimit.call(handle, uintptr(unsafe.Pointer(milliwatts))) == nil {
		r.PowerLimit = float64(*milliwatts) / 1000
	}
	return r
}

// energy is in joules since the driver was loaded, -1 where the device does not
// tell.
func (a *api) energy(handle uintptr) float64 {
	millijoules := new(uint64)
	if a.totalEnergy.call(handle, uintptr(unsafe.Pointer(millijoules))) != nil {
		return -1
	}
	return float64(*millijoules) / 1000
}
