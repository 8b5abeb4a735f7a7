package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/tensor"
)

// Tensors on GPUs. A worker writes them into segments that the pool has made for it (GROW
// with a device, memory.go). Other workers are lent these segments (lend.go) if they have
// said that they see the device (DEVICES) and if they take such tensors: inputs by the
// configuration of the model, answers to calls by a flag of INFER. For everybody else the
// tensor is copied to the host: outputs in views.settleOutputs, inputs in shareDevice.

// seesDevice is Request.TakesDevice of the worker's calls.
func (c *Conn) seesDevice(gpu tensor.GPU) bool {
	s := c.lock()
	defer c.unlock()
	return s.err == nil && s.shared.sees(gpu)
}

// shareDevice does for an input on a GPU what share does for the others. For an
// instance that cannot read it there it is copied to the host.
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
