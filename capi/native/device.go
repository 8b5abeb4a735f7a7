//go:build cgo

package native

import (
	"encoding/json"
	"runtime"
	"sync"

	"github.com/nesoserve/neso/backend"
)

// What TRITONBACKEND_BackendSetExecutionPolicy takes.
const (
	executionBlocking = iota
	executionDeviceBlocking
)

// devices are the threads of a model whose library blocks its device: all instances of the
// model on one GPU run on one thread, hence one after the other. It has an entry for each
// GPU with instances.
type devices struct {
	mu sync.Mutex
	by map[int]*device
}

type device struct {
	work  chan deviceJob // unbuffered: an instance waits for its turn
	ended chan struct{}  // closed when the thread has ended
	users int
}

type deviceJob struct {
	run  func() error
	done chan<- error
}

// join returns the thread that an instance runs on besides its own: nil where that is
// enough. As in Triton it is for GPUs alone, and not for models that keep sequences apart,
// whose instances would wait for each other's sequences.
func (m *model) join(c *backend.InstanceConfig) *device {
	if m.library.policy != executionDeviceBlocking || c.Kind != "KIND_GPU" || m.sequences() {
		return nil
	}
	ds := &m.devices
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.by[c.Device]
	if d == nil {
		d = &device{work: make(chan deviceJob), ended: make(chan struct{})}
		if ds.by == nil {
			ds.by = map[int]*device{}
		}
		ds.by[c.Device] = d
		go d.serve()
	}
	d.users++
	return d
}

// part is the end of join: the thread ends with the last instance.
func (m *model) part(c *backend.InstanceConfig, d *device) {
	if d == nil {
		return
	}
	ds := &m.devices
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.users--; d.users == 0 {
		delete(ds.by, c.Device)
		close(d.work)
		<-d.ended
	}
}

func (d *device) serve() {
	defer close(d.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for j := range d.work {
		j.done <- guarded(j.run)
	}
}

// guarded turns a panic of ours into the error of the batch, as the thread of an instance does.
func guarded(run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = backend.Errorf(backend.Internal, "backend panicked: %v", v)
		}
	}()
	return run()
}

// do runs f on the thread, after what came before.
func (d *device) do(f func() error) error {
	done := make(chan error, 1)
	d.work <- deviceJob{f, done}
	return <-done
}

// sequences reports whether the configuration keeps sequences apart.
func (m *model) sequences() bool {
	var c struct {
		Sequence json.RawMessage `json:"sequence_batching"`
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = json.Unmarshal([]byte(m.config), &c) // it is the server's own, or says nothing of sequences
	return len(c.Sequence) > 0 && string(c.Sequence) != "null"
}
