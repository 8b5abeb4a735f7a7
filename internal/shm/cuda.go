package shm

import (
	"errors"
	"sync"

	"github.com/nesoserve/neso/internal/cuda"
)

// driver is the GPU driver's library, opened when the first region needs it. A
// failure is not kept: a driver may be installed while the server runs.
type driver struct {
	path string

	mu      sync.Mutex
	library *cuda.Library
}

// openHandle maps byteSize bytes that another process has exported.
func (d *driver) openHandle(handle cuda.Handle, device int64, byteSize uint64) (memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.library == nil {
		library, err := cuda.Open(d.path)
		if err != nil {
			return nil, cuda.ErrNoGPU
		}
		d.library = library
	}
	context, err := d.library.Retain(device)
	if err != nil {
		return nil, err
	}
	m := &cudaMemory{context: context, size: byteSize}
	if m.pointer, err = context.Import(handle); err != nil {
		_ = context.Release() // the first failure says more
		return nil, err
	}
	// The size is a claim of the client. Where the driver does not tell, it refuses
	// the copies that go beyond.
	if base, size, err := context.Extent(m.pointer); err == nil {
		if before := uint64(m.pointer - base); before > size || byteSize > size-before {
			_ = m.Close() // the size says more
			return nil, errors.New("byte_size is larger than the memory")
		}
	}
	return m, nil
}

// cudaMemory is memory of a GPU.
type cudaMemory struct {
	context *cuda.Context
	pointer cuda.Pointer // of the first byte
	size    uint64
}

// ReadAt copies from the device; it returns when the copy is complete.
func (m *cudaMemory) ReadAt(b []byte, at int64) (int, error) {
	return m.copy(b, at, func(p cuda.Pointer) error { return m.context.ToHost(b, p) })
}

// WriteAt copies to the device; it returns when the copy is complete.
func (m *cudaMemory) WriteAt(b []byte, at int64) (int, error) {
	return m.copy(b, at, func(p cuda.Pointer) error { return m.context.ToDevice(p, b) })
}

func (m *cudaMemory) copy(b []byte, at int64, do func(cuda.Pointer) error) (int, error) {
	if at < 0 || uint64(at) > m.size || uint64(len(b)) > m.size-uint64(at) {
		return 0, errGone
	}
	if err := do(m.pointer + cuda.Pointer(at)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close lets go of the memory and of the device.
func (m *cudaMemory) Close() error {
	return errors.Join(m.context.Unmap(m.pointer), m.context.Release())
}
