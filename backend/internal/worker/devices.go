package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/tensor"
)

// Tensors on GPUs. A worker writes them into segments that the pool has made for
// it (GROW with a device, memory.go), and others are lent these (lend.go) if they have said
// that they see the device (DEVICES) and take such tensors: in the inputs of a
// model by its configuration, in the answer to a call by a flag of INFER. For
// everybody else a tensor is brought to the host here, where it comes from the
// worker, or in share, where it goes to one.

// seesDevice is Request.TakesDevice of the worker's calls.
func (c *Conn) seesDevice(gpu tensor.GPU) bool {
	s := c.lock()
	defer c.unlock()
	return s.err == nil && s.shared.sees(gpu)
}

// shareDevice does for an input on a GPU what share does for the others. What
// ends at an instance that cannot read it there is copied to the host.
func (i *Instance) shareDevice(request int, t *tensor.Tensor, copies []inflight.Copy) ([]inflight.Copy, error) {
	if i.TakesDevice {
		if _, ok := i.conn.lend(t); ok {
			return copies, nil
		}
	}
	buf, err := i.Arena.AllocateShared(t.Size())
	if err == nil {
		if err = t.Device().ToHost(buf.Bytes(), t.Buffer.Region().Offset); err != nil {
			buf.Release()
		}
	}
	if err != nil {
		return copies, backend.Errorf(backend.Unavailable, "failed to bring input '%s' from the GPU: %v", t.Name, err)
	}
	return append(copies, inflight.Copy{Request: request, Device: t.Buffer, Buffer: buf}), nil
}
