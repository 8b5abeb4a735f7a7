package shm

import (
	"errors"
	"sync"
)

// errNoGPU says that there is no GPU driver, or no GPU.
var errNoGPU = errors.New("GPUs not supported")

// driver is the GPU driver's library, opened when the first region needs it. A
// failure is not kept: a driver may be installed while the server runs.
type driver struct {
	path string

	mu  sync.Mutex
	api *cudaAPI
}

// openHandle opens memory that another process has exported.
func (d *driver) openHandle(handle [HandleSize]byte, device int64, byteSize uint64) (memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.api == nil {
		api, err := openCUDA(d.path)
		if err != nil {
			return nil, errNoGPU
		}
		d.api = api
	}
	return d.api.open(handle, device, byteSize)
}
