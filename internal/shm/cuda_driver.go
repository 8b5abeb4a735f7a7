//go:build linux && (amd64 || arm64) && !nopurego

package shm

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

// cudaAPI are the functions of the driver that regions need. The names with a
// version are those that the driver's header gives the plain ones.
type cudaAPI struct {
	init, count, device, retain, drop, push, pop, open_, close_, extent, toDevice, toHost cfunc
}

// cfunc is a C function that returns a CUresult.
type cfunc struct {
	name    string
	address uintptr
}

// call calls f. A uintptr made from an unsafe.Pointer in the argument list
// keeps what it points to in place until the call returns.
//
//go:uintptrescapes
func (f cfunc) call(args ...uintptr) error {
	r, _, _ := purego.SyscallN(f.address, args...)
	if code := uint32(r); code != 0 {
		return fmt.Errorf("%s: CUDA error %d", f.name, code)
	}
	return nil
}

func openCUDA(path string) (*cudaAPI, error) {
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	processors.Keep()
	a := &cudaAPI{}
	for _, f := range []struct {
		to   *cfunc
		name string
	}{
		{&a.init, "cuInit"},
		{&a.count, "cuDeviceGetCount"},
		{&a.device, "cuDeviceGet"},
		{&a.retain, "cuDevicePrimaryCtxRetain"},
		{&a.drop, "cuDevicePrimaryCtxRelease_v2"},
		{&a.push, "cuCtxPushCurrent_v2"},
		{&a.pop, "cuCtxPopCurrent_v2"},
		{&a.open_, "cuIpcOpenMemHandle_v2"},
		{&a.close_, "cuIpcCloseMemHandle"},
		{&a.extent, "cuMemGetAddressRange_v2"},
		{&a.toDevice, "cuMemcpyHtoD_v2"},
		{&a.toHost, "cuMemcpyDtoH_v2"},
	} {
		address, err := purego.Dlsym(library, f.name)
		if err != nil || address == 0 {
			return nil, fmt.Errorf("%s has no function %s", path, f.name)
		}
		*f.to = cfunc{f.name, address}
	}
	if err := a.init.call(0); err != nil {
		return nil, err
	}
	count := new(int32)
	if err := a.count.call(uintptr(unsafe.Pointer(count))); err != nil {
		return nil, err
	}
	if *count == 0 {
		return nil, errNoGPU
	}
	return a, nil
}

// lazyPeerAccess is the flag that cuIpcOpenMemHandle must have.
const lazyPeerAccess = 1

// open maps exported memory into the primary context of the device.
func (a *cudaAPI) open(handle [HandleSize]byte, number int64, byteSize uint64) (memory, error) {
	if number < 0 || number > math.MaxInt32 {
		return nil, errors.New("no such device")
	}
	device, context := new(int32), new(uintptr)
	if err := a.device.call(uintptr(unsafe.Pointer(device)), uintptr(number)); err != nil {
		return nil, err
	}
	if err := a.retain.call(uintptr(unsafe.Pointer(context)), uintptr(*device)); err != nil {
		return nil, err
	}
	m := &cudaMemory{api: a, device: *device, context: *context, size: byteSize}
	err := m.within(func() error {
		if err := m.openHandle(&handle); err != nil {
			return err
		}
		// The size is a claim of the client. Where the driver does not tell, it
		// refuses the copies that go beyond.
		base, size := new(uint64), new(uint64)
		if a.extent.call(uintptr(unsafe.Pointer(base)), uintptr(unsafe.Pointer(size)), uintptr(m.pointer)) == nil {
			if before := m.pointer - *base; before > *size || byteSize > *size-before {
				_ = a.close_.call(uintptr(m.pointer)) // the size says more
				return errors.New("byte_size is larger than the memory")
			}
		}
		return nil
	})
	if err != nil {
		_ = a.drop.call(uintptr(m.device)) // the first failure says more
		return nil, err
	}
	return m, nil
}

// cudaMemory is memory of a GPU.
type cudaMemory struct {
	api     *cudaAPI
	device  int32
	context uintptr
	pointer uint64 // address of the first byte on the device
	size    uint64
}

// openHandle passes the handle by value: a C structure of 64 bytes, which goes
// onto the stack on amd64, behind arguments that fill the registers, and by
// address on arm64.
func (m *cudaMemory) openHandle(handle *[HandleSize]byte) error {
	pointer := new(uint64)
	var err error
	if runtime.GOARCH == "amd64" {
		var w [8]uintptr
		for i := range w {
			w[i] = uintptr(binary.LittleEndian.Uint64(handle[8*i:]))
		}
		err = m.api.open_.call(uintptr(unsafe.Pointer(pointer)), lazyPeerAccess, 0, 0, 0, 0, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	} else {
		err = m.api.open_.call(uintptr(unsafe.Pointer(pointer)), uintptr(unsafe.Pointer(handle)), lazyPeerAccess)
	}
	m.pointer = *pointer
	return err
}

// within runs do with the device's context, which belongs to a thread.
func (m *cudaMemory) within(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := m.api.push.call(m.context); err != nil {
		return err
	}
	err := do()
	old := new(uintptr)
	return errors.Join(err, m.api.pop.call(uintptr(unsafe.Pointer(old))))
}

// ReadAt copies from the device; it returns when the copy is complete.
func (m *cudaMemory) ReadAt(b []byte, at int64) (int, error) {
	return m.copy(b, at, func(host, device, n uintptr) error { return m.api.toHost.call(host, device, n) })
}

// WriteAt copies to the device; it returns when the copy is complete.
func (m *cudaMemory) WriteAt(b []byte, at int64) (int, error) {
	return m.copy(b, at, func(host, device, n uintptr) error { return m.api.toDevice.call(device, host, n) })
}

func (m *cudaMemory) copy(b []byte, at int64, do func(host, device, n uintptr) error) (int, error) {
	if at < 0 || uint64(at) > m.size || uint64(len(b)) > m.size-uint64(at) {
		return 0, errGone
	}
	if len(b) == 0 {
		return 0, nil
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&b[0])
	err := m.within(func() error {
		return do(uintptr(unsafe.Pointer(&b[0])), uintptr(m.pointer)+uintptr(at), uintptr(len(b)))
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close lets go of the memory and of the device.
func (m *cudaMemory) Close() error {
	err := m.within(func() error { return m.api.close_.call(uintptr(m.pointer)) })
	return errors.Join(err, m.api.drop.call(uintptr(m.device)))
}
