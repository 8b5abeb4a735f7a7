package segment

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/cuda"
	"github.com/nesoserve/neso/tensor"
)

const (
	// DefaultDeviceMemory bounds the segments on one GPU, in bytes.
	DefaultDeviceMemory = 64 << 20
	// devicePage divides every segment: what is smaller shares its page, hence its
	// handle, with others.
	devicePage = 2 << 20
)

// DeviceOptions configure a pool.
type DeviceOptions struct {
	// Limits are the bytes of the pool on each GPU, by the number that it has in
	// this process; DefaultDeviceMemory where there is none.
	Limits map[int]int64
	// Library is the driver's; "" is the usual one.
	Library string
	// OptionPrefix is what messages put before the name of the setting of Limits.
	OptionPrefix string
	// Logger may be nil.
	Logger *slog.Logger
}

// DevicePool makes the segments on GPUs in which workers hand tensors to each
// other. The server makes them, and not the workers, since only it knows when
// nobody reads them any more: memory that another process has open must not be
// freed. It opens the driver, and a context on a device, when the first worker
// asks; the context ends with the last segment.
type DevicePool struct {
	o DeviceOptions

	opening sync.Mutex // the driver is being opened
	mu      sync.Mutex
	takers  map[tensor.GPU]int // workers that take tensors there
	devices map[tensor.GPU]*poolDevice
	freeing int
	refused bool      // the last time that a worker asked
	idle    sync.Cond // on mu: freeing is 0
	closed  bool
}

// poolDevice is a GPU as the pool uses it.
type poolDevice struct {
	pool    *DevicePool
	gpu     tensor.GPU
	number  int64
	limit   uint64
	library *cuda.Library

	mu       sync.Mutex // held while the driver makes and frees memory
	context  *cuda.Context
	segments int
	used     uint64
}

// NewDevicePool returns a pool, which opens nothing yet.
func NewDevicePool(o DeviceOptions) *DevicePool {
	p := &DevicePool{o: o, takers: map[tensor.GPU]int{}}
	p.idle.L = &p.mu
	return p
}

// Enter notes that a worker takes tensors on these devices.
func (p *DevicePool) Enter(gpus []tensor.GPU) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range gpus {
		p.takers[g]++
	}
}

// Leave undoes Enter.
func (p *DevicePool) Leave(gpus []tensor.GPU) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range gpus {
		if p.takers[g]--; p.takers[g] == 0 {
			delete(p.takers, g)
		}
	}
}

var (
	errNoTaker    = errors.New("no model that runs takes tensors on this GPU")
	errPoolClosed = errors.New("the server is stopping")
)

// Allocate returns memory with room for need bytes. have is what the asking
// worker has on the device.
func (p *DevicePool) Allocate(gpu tensor.GPU, need, have uint64) (*DeviceMemory, error) {
	p.mu.Lock()
	taken, closed := p.takers[gpu] > 0, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return nil, errPoolClosed
	case !taken: // the host's memory is as good, and nobody pays for a context
		return nil, errNoTaker
	}
	var m *DeviceMemory
	d, err := p.device(gpu)
	if err == nil {
		m, err = d.allocate(need, have)
	}
	// What is refused goes through host memory, where nobody sees why.
	p.mu.Lock()
	first := err != nil && !p.refused
	p.refused = err != nil
	p.mu.Unlock()
	if first {
		p.warn("tensors between models go through host memory", err)
	}
	return m, err
}

// device finds a GPU in the driver, which it opens if need be. A failure is not
// kept.
func (p *DevicePool) device(gpu tensor.GPU) (*poolDevice, error) {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.devices == nil {
		library, err := cuda.Open(p.o.Library)
		if err != nil {
			return nil, err
		}
		devices := map[tensor.GPU]*poolDevice{}
		for n := range library.Count() {
			uuid, err := library.UUID(int64(n))
			if err != nil {
				return nil, err
			}
			limit := uint64(DefaultDeviceMemory)
			if said, ok := p.o.Limits[n]; ok {
				limit = uint64(max(0, said))
			}
			devices[uuid] = &poolDevice{pool: p, gpu: uuid, number: int64(n), limit: limit, library: library}
		}
		p.devices = devices
	}
	if d := p.devices[gpu]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("the server sees no GPU with the UUID %s", cuda.Text(gpu))
}

// Close refuses further memory and waits for what is being freed. What is still
// read is freed by its last reader.
func (p *DevicePool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.freeing > 0 {
		p.idle.Wait()
	}
}

func (d *poolDevice) allocate(need, have uint64) (*DeviceMemory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := (d.limit - d.used) &^ (devicePage - 1)
	if need == 0 || need > left {
		return nil, fmt.Errorf("%d bytes on GPU %d: the pool of %d bytes (%scuda-memory-pool-byte-size) has %d left",
			need, d.number, d.limit, d.pool.o.OptionPrefix, left)
	}
	least := (need + devicePage - 1) &^ (devicePage - 1)
	size := min(left, max(least, have/2&^(devicePage-1)))
	if d.context == nil {
		context, err := d.library.Retain(d.number)
		if err != nil {
			return nil, err
		}
		d.context = context
	}
	m := &DeviceMemory{device: d, context: d.context, size: size}
	var err error
	if m.pointer, err = d.context.Allocate(size); err != nil && least < size {
		m.size = least
		m.pointer, err = d.context.Allocate(least)
	}
	if err == nil {
		if m.handle, err = d.context.Export(m.pointer); err != nil {
			_ = d.context.Free(m.pointer) // the first failure says more
		}
	}
	if err != nil {
		d.endLocked()
		return nil, err
	}
	d.segments++
	d.used += m.size
	return m, nil
}

// endLocked lets go of a device without segments.
func (d *poolDevice) endLocked() {
	if d.segments > 0 || d.context == nil {
		return
	}
	if err := d.context.Release(); err != nil {
		d.pool.warn("GPU driver", err)
	}
	d.context = nil
}

// Holdings are what a pool holds, on all GPUs together.
type Holdings struct {
	Opened             bool // the driver was
	Contexts, Segments int
	Bytes              uint64 // in the segments
	Takers             int    // workers that take tensors, one for each GPU of theirs
}

// Holdings returns what the pool holds.
func (p *DevicePool) Holdings() (h Holdings) {
	p.opening.Lock()
	defer p.opening.Unlock()
	h.Opened = p.devices != nil
	for _, d := range p.devices {
		d.mu.Lock()
		if d.context != nil {
			h.Contexts++
		}
		h.Segments += d.segments
		h.Bytes += d.used
		d.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.takers {
		h.Takers += n
	}
	return h
}

func (p *DevicePool) warn(what string, err error) {
	if p.o.Logger != nil {
		p.o.Logger.Warn(what, slog.Any("error", err)) //nolint:sloglint // the callers give constants
	}
}

// DeviceMemory is one segment on a GPU. It is the Arena of the Region of the
// buffers in it.
type DeviceMemory struct {
	device  *poolDevice
	context *cuda.Context // exists as long as the memory
	pointer cuda.Pointer
	size    uint64
	handle  cuda.Handle
	of      *Segment // set before a buffer is made
}

// GPU implements tensor.DeviceMemory.
func (m *DeviceMemory) GPU() tensor.GPU { return m.device.gpu }

// ToHost implements tensor.DeviceMemory.
func (m *DeviceMemory) ToHost(dst []byte, offset uint64) error {
	if offset > m.size || uint64(len(dst)) > m.size-offset {
		return fmt.Errorf("%d bytes at %d of a segment of %d", len(dst), offset, m.size)
	}
	return m.context.ToHost(dst, m.pointer+cuda.Pointer(offset))
}

// AppendSegment appends the frame that hands the memory over.
func (m *DeviceMemory) AppendSegment(dst []byte, number, kind uint32) []byte {
	return wire.AppendDeviceSegment(dst, number, kind, m.size, m.GPU(), m.handle)
}

// Free gives the memory back, once, when no process has it open. It does not
// wait: the driver does, for the device.
func (m *DeviceMemory) Free() {
	d, p := m.device, m.device.pool
	p.mu.Lock()
	p.freeing++
	p.mu.Unlock()
	go func() { // Close waits for it
		d.mu.Lock()
		if err := m.context.Free(m.pointer); err != nil {
			p.warn("GPU driver", err)
		}
		d.segments--
		d.used -= m.size
		d.endLocked()
		d.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.freeing--; p.freeing == 0 {
			p.idle.Broadcast()
		}
	}()
}
