package shm

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cuda"
)

// Kind is what a region's memory is.
type Kind uint8

// The kinds.
const (
	System Kind = iota
	CUDA
)

// String returns the kind as it stands in paths and texts.
func (k Kind) String() string {
	if k == CUDA {
		return "cuda"
	}
	return "system"
}

// title is the kind as Triton writes it within sentences.
func (k Kind) title() string {
	if k == CUDA {
		return "CUDA"
	}
	return "system"
}

// Bounds of what clients can register. Each region holds a descriptor.
const (
	maxRegions = 4096
	maxName    = 4096 // bytes of a region's name
)

// HandleSize is the size of a CUDA memory handle in bytes.
const HandleSize = cuda.HandleSize

// textDisabled refuses a client that may not use shared memory.
const textDisabled = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."

// Options of a registry; the zero value is the default.
type Options struct {
	// Access says which clients may use shared memory; default LocalPeers.
	Access Access
	// Directory is where system regions lie; default "/dev/shm".
	Directory string
	// CUDALibrary is the GPU driver's library; default "libcuda.so.1".
	CUDALibrary string
}

// Registry is the set of registered regions. It is safe for concurrent use. All
// methods but Close may be called on nil, which is the registry of a client that
// has no access.
type Registry struct {
	o    Options
	cuda driver
	used atomic.Int32 // regions registered, to look without the lock

	mu      sync.Mutex
	regions map[string]*region
	closed  bool
}

// New returns an empty registry. It opens nothing.
func New(o Options) *Registry {
	if o.Directory == "" {
		o.Directory = "/dev/shm"
	}
	if o.CUDALibrary == "" {
		o.CUDALibrary = cuda.DefaultLibrary
	}
	return &Registry{o: o, regions: map[string]*region{}, cuda: driver{path: o.CUDALibrary}}
}

// Empty reports whether there is no region that a request could name.
func (r *Registry) Empty() bool { return r == nil || r.used.Load() == 0 }

// RegisterSystem makes byteSize bytes from offset of the shared-memory object
// named key known as name. The object must exist and be that large; neither
// offset nor size has to be aligned.
func (r *Registry) RegisterSystem(name, key string, offset, byteSize uint64) error {
	if r == nil {
		return disabled()
	}
	if err := r.free(System, name); err != nil {
		return err
	}
	object, err := objectName(name, key)
	if err != nil {
		return err
	}
	m, size, fault := openSystem(r.o.Directory, object)
	switch {
	case fault == errPlatform: //nolint:errorlint // our own value
		return backend.Errorf(backend.Unsupported, "system shared memory is not supported on this platform")
	case fault != nil:
		return unopenable(key)
	case byteSize == 0 || offset > size || byteSize > size-offset:
		_ = m.Close() // nothing was written
		return invalidArgs(name)
	}
	return r.add(&region{Region: Region{Name: name, Kind: System, Key: key, Offset: offset, ByteSize: byteSize}, memory: m})
}

// RegisterCUDA makes byteSize bytes of GPU memory known as name: those that
// another process has exported as handle, of HandleSize bytes, on the device.
func (r *Registry) RegisterCUDA(name string, handle []byte, device int64, byteSize uint64) error {
	if r == nil {
		return disabled()
	}
	if err := r.free(CUDA, name); err != nil {
		return err
	}
	if len(handle) != HandleSize {
		return backend.Errorf(backend.InvalidArg, "'raw_handle' must be a valid cudaIpcMemHandle_t of %d bytes, got %d", HandleSize, len(handle))
	}
	if byteSize == 0 || byteSize > 1<<62 {
		return invalidArgs(name)
	}
	m, fault := r.cuda.openHandle(cuda.Handle(handle), device, byteSize)
	switch {
	case fault == cuda.ErrNoGPU: //nolint:errorlint // our own value
		return backend.Errorf(backend.InvalidArg, "failed to register CUDA shared memory region: '%s', GPUs not supported", name)
	case fault != nil:
		return backend.Errorf(backend.InvalidArg, "failed to register shared memory region: invalid args (%v)", fault)
	}
	return r.add(&region{Region: Region{Name: name, Kind: CUDA, Device: uint64(device), ByteSize: byteSize}, memory: m})
}

// free reports why name cannot be registered.
func (r *Registry) free(k Kind, name string) error {
	if name == "" {
		return NoName(k)
	}
	if len(name) > maxName {
		return backend.Errorf(backend.InvalidArg, "the name of a shared memory region has at most %d bytes", maxName)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeLocked(name)
}

func (r *Registry) freeLocked(name string) error {
	switch {
	case r.regions[name] != nil:
		return backend.Errorf(backend.AlreadyExists, "shared memory region '%s' already in manager", name)
	case r.closed:
		return backend.Errorf(backend.Unavailable, "Server exiting")
	case len(r.regions) >= maxRegions:
		return backend.Errorf(backend.Unavailable,
			"failed to register shared memory region '%s': %d regions are registered, which is the maximum", name, maxRegions)
	}
	return nil
}

// add makes n known; if it cannot be, its memory is let go.
func (r *Registry) add(n *region) error {
	n.refs.Store(1)
	r.mu.Lock()
	err := r.freeLocked(n.Name) // another client may have been faster
	if err == nil {
		r.regions[n.Name] = n
		r.used.Add(1)
	}
	r.mu.Unlock()
	if err != nil {
		n.release()
	}
	return err
}

// Regions returns the regions of a kind, sorted by name, or the named one.
func (r *Registry) Regions(k Kind, name string) ([]Region, error) {
	if r == nil {
		if name != "" {
			return nil, unknownOf(k, name)
		}
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" {
		n := r.regions[name]
		switch {
		case n == nil:
			return nil, unknownOf(k, name)
		case n.Kind != k:
			return nil, backend.Errorf(backend.NotFound, "The region named '%s' is registered as %s shared memory, not %s shared memory", name,
				n.Kind.title(), k.title())
		}
		return []Region{n.Region}, nil
	}
	var list []Region
	for _, n := range r.regions {
		if n.Kind == k {
			list = append(list, n.Region)
		}
	}
	slices.SortFunc(list, func(a, b Region) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Unregister forgets the named region of a kind, or all of the kind for the
// empty name; one that is not known is no error. A region that a request uses
// stays registered, which is an error that names it.
func (r *Registry) Unregister(k Kind, name string) error {
	if r == nil {
		return disabled()
	}
	stay := r.forget(func(n *region) bool {
		return n.Kind == k && (name == "" || n.Name == name)
	}, false)
	switch {
	case len(stay) == 0:
		return nil
	case name != "":
		return backend.Errorf(backend.Internal, "Cannot unregister shared memory region '%s', it is currently in use.", name)
	}
	slices.Sort(stay)
	return backend.Errorf(backend.Internal, "Failed to unregister the following %s shared memory regions: %s ,", k, strings.Join(stay, " ,"))
}

// forget removes regions, but for those in use unless they are to be, and
// returns the names of those that stay.
func (r *Registry) forget(which func(*region) bool, used bool) (stay []string) {
	var gone []*region
	r.mu.Lock()
	for name, n := range r.regions {
		switch {
		case !which(n):
		case !used && n.refs.Load() > 1: // it can only become less: Use holds the lock
			stay = append(stay, name)
		default:
			delete(r.regions, name)
			gone = append(gone, n)
		}
	}
	r.used.Add(-int32(len(gone)))
	r.mu.Unlock()
	for _, n := range gone {
		n.release()
	}
	return stay
}

// Close forgets all regions, and none can be registered any more. The memory of
// those in use stays until the last request is done.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.forget(func(*region) bool { return true }, true)
}

// Use returns byteSize bytes from offset of the named region, of either kind.
// The caller has to Release the part; until then the region cannot be
// unregistered, and its memory stays.
func (r *Registry) Use(name string, offset, byteSize uint64) (Part, *backend.Error) {
	if r == nil {
		return Part{}, unknown(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.regions[name]
	switch {
	case n == nil:
		return Part{}, unknown(name)
	case offset >= n.ByteSize:
		return Part{}, backend.Errorf(backend.InvalidArg, "Invalid offset for shared memory region: '%s'", name)
	case byteSize > n.ByteSize-offset:
		return Part{}, backend.Errorf(backend.InvalidArg, "Invalid offset + byte size for shared memory region: '%s'", name)
	}
	n.refs.Add(1)
	return Part{region: n, at: int64(n.Offset + offset), size: int64(byteSize)}, nil
}

// NoName is the error for a registration without a region's name.
func NoName(k Kind) *backend.Error {
	return backend.Errorf(backend.InvalidArg, "'region name' is necessary to register %s shared memory region", k)
}

func disabled() error { return &backend.Error{Code: backend.Unsupported, Message: textDisabled} }

func unknown(name string) *backend.Error {
	return backend.Errorf(backend.NotFound, "Unable to find shared memory region: '%s'", name)
}

func unknownOf(k Kind, name string) error {
	return backend.Errorf(backend.NotFound, "Unable to find %s shared memory region: '%s'", k, name)
}

func unopenable(key string) error {
	return backend.Errorf(backend.Internal, "Unable to open shared memory region: '%s'", key)
}

func invalidArgs(name string) error {
	return backend.Errorf(backend.InvalidArg, "failed to register shared memory region '%s': invalid args", name)
}
