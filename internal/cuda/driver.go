//go:build linux && (amd64 || arm64) && !nopurego

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/nesoserve/neso/internal/processors"
)

// Library is the driver's library. It is safe for concurrent use.
type Library struct {
	number int // of devices

	init, count, device, retain, drop, push, pop, open, shut, extent, toDevice, toHost function
	// These are looked for and may be missing: not every user needs them.
	uuid, allocate, free, export function
}

// function is a C function that returns a CUresult.
type function struct {
	name    string
	address uintptr
}

// call calls f. A uintptr made from an unsafe.Pointer in the argument list
// keeps what it points to in place until the call returns.
//
//go:uintptrescapes
func (f function) call(args ...uintptr) error {
	if f.address == 0 {
		return fmt.Errorf("the GPU driver has no function %s", f.name)
	}
	r, _, _ := purego.SyscallN(f.address, args...)
	if code := uint32(r); code != 0 {
		return fmt.Errorf("%s: CUDA error %d", f.name, code)
	}
	return nil
}

// Open opens and initializes the library at path, or [DefaultLibrary] for "". It
// fails where there is no GPU.
func Open(path string) (*Library, error) {
	if path == "" {
		path = DefaultLibrary
	}
	runtime.LockOSThread() // its error is this thread's
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	runtime.UnlockOSThread()
	if err != nil {
		return nil, err
	}
	processors.Keep()
	l := &Library{}
	// The names with a version are those that the driver's header gives the plain
	// ones.
	for _, f := range []struct {
		to       *function
		name     string
		optional bool
	}{
		{&l.init, "cuInit", false},
		{&l.count, "cuDeviceGetCount", false},
		{&l.device, "cuDeviceGet", false},
		{&l.retain, "cuDevicePrimaryCtxRetain", false},
		{&l.drop, "cuDevicePrimaryCtxRelease_v2", false},
		{&l.push, "cuCtxPushCurrent_v2", false},
		{&l.pop, "cuCtxPopCurrent_v2", false},
		{&l.open, "cuIpcOpenMemHandle_v2", false},
		{&l.shut, "cuIpcCloseMemHandle", false},
		{&l.extent, "cuMemGetAddressRange_v2", false},
		{&l.toDevice, "cuMemcpyHtoD_v2", false},
		{&l.toHost, "cuMemcpyDtoH_v2", false},
		{&l.uuid, "cuDeviceGetUuid_v2", true},
		{&l.allocate, "cuMemAlloc_v2", true},
		{&l.free, "cuMemFree_v2", true},
		{&l.export, "cuIpcGetMemHandle", true},
	} {
		address, err := purego.Dlsym(library, f.name)
		if (err != nil || address == 0) && !f.optional {
			return nil, fmt.Errorf("%s has no function %s", path, f.name)
		}
		*f.to = function{f.name, address}
	}
	if err := l.init.call(0); err != nil {
		return nil, err
	}
	count := new(int32)
	if err := l.count.call(uintptr(unsafe.Pointer(count))); err != nil {
		return nil, err
	}
	if *count <= 0 {
		return nil, ErrNoGPU
	}
	l.number = int(*count)
	return l, nil
}

// Count returns how many devices the driver shows to this process.
func (l *Library) Count() int { return l.number }

func (l *Library) deviceAt(number int64) (int32, error) {
	if number < 0 || number > math.MaxInt32 {
		return 0, errors.New("no such device")
	}
	device := new(int32)
	err := l.device.call(uintptr(unsafe.Pointer(device)), uintptr(number))
	return *device, err
}

// UUID returns what a device is called in every process. Devices are numbered
// from 0 in the order of this process.
func (l *Library) UUID(number int64) (UUID, error) {
	device, err := l.deviceAt(number)
	if err != nil {
		return UUID{}, err
	}
	uuid := new(UUID)
	err = l.uuid.call(uintptr(unsafe.Pointer(uuid)), uintptr(device))
	return *uuid, err
}

// Retain returns the primary context of a device, which it makes if need be:
// that takes a while and memory of the device.
func (l *Library) Retain(number int64) (*Context, error) {
	device, err := l.deviceAt(number)
	if err != nil {
		return nil, err
	}
	context := new(uintptr)
	if err := l.retain.call(uintptr(unsafe.Pointer(context)), uintptr(device)); err != nil {
		return nil, err
	}
	return &Context{l, device, *context}, nil
}

// Context is the primary context of a device, as this process holds it. It is
// safe for concurrent use.
type Context struct {
	library *Library
	device  int32
	context uintptr
}

// Release lets go of the device, once: the last one in the process ends the
// context. Nothing made within it may be used any more.
func (c *Context) Release() error { return c.library.drop.call(uintptr(c.device)) }

// within runs do with the context, which belongs to a thread.
func (c *Context) within(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.library.push.call(c.context); err != nil {
		return err
	}
	err := do()
	old := new(uintptr)
	return errors.Join(err, c.library.pop.call(uintptr(unsafe.Pointer(old))))
}

// Allocate returns size bytes of the device's memory; their content is
// undefined.
func (c *Context) Allocate(size uint64) (Pointer, error) {
	p := new(Pointer)
	err := c.within(func() error { return c.library.allocate.call(uintptr(unsafe.Pointer(p)), uintptr(size)) })
	return *p, err
}

// Free gives back what Allocate returned. It waits for the device.
func (c *Context) Free(p Pointer) error {
	return c.within(func() error { return c.library.free.call(uintptr(p)) })
}

// Export returns the handle by which other processes import memory that
// Allocate returned.
func (c *Context) Export(p Pointer) (Handle, error) {
	h := new(Handle)
	err := c.within(func() error { return c.library.export.call(uintptr(unsafe.Pointer(h)), uintptr(p)) })
	return *h, err
}

// lazyPeerAccess is the flag that cuIpcOpenMemHandle must have.
const lazyPeerAccess = 1

// Import maps memory that another process has exported.
func (c *Context) Import(h Handle) (Pointer, error) {
	p := new(Pointer)
	err := c.within(func() error {
		// A C structure of 64 bytes that is passed by value goes onto the stack on
		// amd64, behind arguments that fill the registers, and by address on arm64.
		if runtime.GOARCH != "amd64" {
			copied := &h
			return c.library.open.call(uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(copied)), lazyPeerAccess)
		}
		var w [8]uintptr
		for i := range w {
			w[i] = uintptr(binary.LittleEndian.Uint64(h[8*i:]))
		}
		return c.library.open.call(uintptr(unsafe.Pointer(p)), lazyPeerAccess, 0, 0, 0, 0, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	})
	return *p, err
}

// Unmap gives back what Import returned.
func (c *Context) Unmap(p Pointer) error {
	return c.within(func() error { return c.library.shut.call(uintptr(p)) })
}

// Extent returns the allocation that p lies in: its begin and its bytes.
func (c *Context) Extent(p Pointer) (base Pointer, size uint64, err error) {
	b, n := new(Pointer), new(uint64)
	err = c.within(func() error {
		return c.library.extent.call(uintptr(unsafe.Pointer(b)), uintptr(unsafe.Pointer(n)), uintptr(p))
	})
	return *b, *n, err
}

// ToHost fills b from the device. It returns when the copy is complete.
func (c *Context) ToHost(b []byte, from Pointer) error {
	return c.copy(b, func(host uintptr) error { return c.library.toHost.call(host, uintptr(from), uintptr(len(b))) })
}

// ToDevice copies b to the device. It returns when the copy is complete.
func (c *Context) ToDevice(to Pointer, b []byte) error {
	return c.copy(b, func(host uintptr) error { return c.library.toDevice.call(uintptr(to), host, uintptr(len(b))) })
}

func (c *Context) copy(b []byte, do func(host uintptr) error) error {
	if len(b) == 0 {
		return nil
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&b[0])
	return c.within(func() error { return do(uintptr(unsafe.Pointer(&b[0]))) })
}
