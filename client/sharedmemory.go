package client

import (
	"context"
)

// Region is a place in shared memory that the server knows by a name, for a
// client on its machine.
type Region struct {
	// Name is the one of RegisterSystemSharedMemory or RegisterCUDASharedMemory.
	Name string
	// Offset and Size are bytes within what was registered.
	Offset, Size int64
}

func (r *Region) parameters() map[string]any {
	return map[string]any{paramRegion: r.Name, paramRegionOffset: r.Offset, paramRegionSize: r.Size}
}

const (
	paramRegion       = "shared_memory_region"
	paramRegionOffset = "shared_memory_offset"
	paramRegionSize   = "shared_memory_byte_size"
)

// SystemRegion is a region of system memory that is registered.
type SystemRegion struct {
	Name   string `json:"name"`
	Key    string `json:"key"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"byte_size"`
}

// CUDARegion is a region of a GPU's memory that is registered.
type CUDARegion struct {
	Name   string `json:"name"`
	Device int64  `json:"device_id"`
	Size   int64  `json:"byte_size"`
}

// RegisterSystemSharedMemory makes size bytes at offset of the object /dev/shm/key
// known to the server as name. The client makes the object, fills it, and removes
// it when it is unregistered; NewSharedMemory is a way to.
func (c *Client) RegisterSystemSharedMemory(ctx context.Context, name, key string, offset, size int64) error {
	r := &SystemRegion{Name: name, Key: key, Offset: offset, Size: size}
	return c.do(ctx, func(t transport) error { return t.registerSystem(ctx, r) })
}

// RegisterCUDASharedMemory makes size bytes on a GPU known to the server as name.
// handle is the cudaIpcMemHandle_t of the memory, 64 bytes.
func (c *Client) RegisterCUDASharedMemory(ctx context.Context, name string, handle []byte, device, size int64) error {
	r := &CUDARegion{Name: name, Device: device, Size: size}
	return c.do(ctx, func(t transport) error { return t.registerCUDA(ctx, r, handle) })
}

// UnregisterSystemSharedMemory makes the server forget a region; requests that use
// it go on. The name "" stands for all regions, those of other clients too.
func (c *Client) UnregisterSystemSharedMemory(ctx context.Context, name string) error {
	return c.do(ctx, func(t transport) error { return t.unregister(ctx, systemMemory, name) })
}

// UnregisterCUDASharedMemory is UnregisterSystemSharedMemory for regions of GPUs.
func (c *Client) UnregisterCUDASharedMemory(ctx context.Context, name string) error {
	return c.do(ctx, func(t transport) error { return t.unregister(ctx, cudaMemory, name) })
}

// SystemSharedMemory lists what is registered, or the regions of these names, of
// which one that is not is an error.
func (c *Client) SystemSharedMemory(ctx context.Context, names ...string) ([]SystemRegion, error) {
	return regions(ctx, c, names, transport.systemRegions)
}

// CUDASharedMemory is SystemSharedMemory for regions of GPUs.
func (c *Client) CUDASharedMemory(ctx context.Context, names ...string) ([]CUDARegion, error) {
	return regions(ctx, c, names, transport.cudaRegions)
}

func regions[T any](ctx context.Context, c *Client, names []string, of func(transport, context.Context, string) ([]T, error)) ([]T, error) {
	if len(names) == 0 {
		names = []string{""}
	}
	var all []T
	for _, name := range names {
		list, err := call(ctx, c, control, func(t transport, ctx context.Context) ([]T, error) { return of(t, ctx, name) })
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}
