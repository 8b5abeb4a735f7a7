//go:build !linux || !(amd64 || arm64) || nopurego

package cuda

// Library cannot be opened on platforms without CUDA handles.
type Library struct{}

// Context is that of no device.
type Context struct{}

// Open fails.
func Open(string) (*Library, error) { return nil, ErrNoGPU }

// Count returns 0.
func (*Library) Count() int { return 0 }

// UUID fails.
func (*Library) UUID(int64) (UUID, error) { return UUID{}, ErrNoGPU }

// Retain fails.
func (*Library) Retain(int64) (*Context, error) { return nil, ErrNoGPU }

// Release fails.
func (*Context) Release() error { return ErrNoGPU }

// Allocate fails.
func (*Context) Allocate(uint64) (Pointer, error) { return 0, ErrNoGPU }

// Free fails.
func (*Context) Free(Pointer) error { return ErrNoGPU }

// Export fails.
func (*Context) Export(Pointer) (Handle, error) { return Handle{}, ErrNoGPU }

// Import fails.
func (*Context) Import(Handle) (Pointer, error) { return 0, ErrNoGPU }

// Unmap fails.
func (*Context) Unmap(Pointer) error { return ErrNoGPU }

// Extent fails.
func (*Context) Extent(Pointer) (base Pointer, size uint64, err error) { return 0, 0, ErrNoGPU }

// ToHost fails.
func (*Context) ToHost([]byte, Pointer) error { return ErrNoGPU }

// ToDevice fails.
func (*Context) ToDevice(Pointer, []byte) error { return ErrNoGPU }
