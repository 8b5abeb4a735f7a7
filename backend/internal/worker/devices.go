package worker

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Tensors on GPUs. A worker writes them into segments that the pool has made for
// it (GROW with a device), and others are lent these (lend.go) if they have said
// that they see the device (DEVICES) and take such tensors: in the inputs of a
// model by its configuration, in the answer to a call by a flag of INFER. For
// everybody else a tensor is brought to the host here, where it comes from the
// worker, or in share, where it goes to one.

// sees takes DEVICES. The pool knows of the worker before anybody else does: who
// learns that it takes tensors there finds memory for them.
func (c *reading) sees(body []byte) error {
	gpus, err := wire.DecodeDevices(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	twice := c.devices != nil
	c.mu.Unlock()
	if twice {
		return &wire.ProtocolError{Kind: wire.KindDevices, Field: "kind", Offset: 3, Detail: "came twice"}
	}
	if c.opts.Devices != nil {
		c.opts.Devices.Enter(gpus)
	}
	c.mu.Lock()
	c.devices = append([]tensor.GPU{}, gpus...)
	c.mu.Unlock()
	return nil
}

// leaveDevices undoes sees: the worker is gone.
func (c *Conn) leaveDevices() {
	c.mu.Lock()
	gpus := c.devices
	c.mu.Unlock()
	if c.opts.Devices != nil {
		c.opts.Devices.Leave(gpus)
	}
}

func (c *Conn) seesLocked(gpu tensor.GPU) bool {
	return c.opts.Devices != nil && slices.Contains(c.devices, gpu)
}

// seesDevice is Request.TakesDevice of the worker's calls.
func (c *Conn) seesDevice(gpu tensor.GPU) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && c.seesLocked(gpu)
}

// growDevice gives the worker memory on a GPU. The driver may take its time,
// which is not the reader's.
func (c *reading) growDevice(id, need uint64, gpu tensor.GPU) error {
	if c.opts.Devices == nil {
		return c.reply(id, nil, backend.Errorf(backend.Unsupported, "this worker has no memory on GPUs"))
	}
	return c.host.Run(id, func() (any, error) { return hostcalls.Answered, c.addDevice(need, gpu) })
}

func (c *Conn) addDevice(need uint64, gpu tensor.GPU) error {
	m, err := c.opts.Devices.Allocate(gpu, need, c.mem.OnDevice(gpu))
	if err != nil {
		return err
	}
	s, err := c.mem.AddDevice(m)
	if err != nil {
		m.Free()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	c.releasesLocked() // they may have made it superfluous
	c.out = m.AppendSegment(c.out, s.Number(), wire.SegmentDevice)
	c.flushLocked()
	return nil
}

// settleOutputs brings the outputs of a response to the host whose recipient
// does not take them on their GPU.
func (c *Conn) settleOutputs(outputs []tensor.Tensor, inst *Instance, to *returned) *backend.Error {
	for i := range outputs {
		m := outputs[i].Device()
		if m == nil || to.gone || to.takes != nil && to.takes(m.GPU()) {
			continue
		}
		if err := c.toHost(&outputs[i], inst.Arena); err != nil {
			return err
		}
	}
	return nil
}

// toHost brings a tensor to the host: to memory of the arena, which other
// workers can be lent, or to ordinary memory when there is none.
func (c *Conn) toHost(t *tensor.Tensor, arena *segment.Arena) *backend.Error {
	var to tensor.Allocator = ordinaryMemory{c}
	if arena != nil {
		to = arena
	}
	if err := t.ToHost(to); err != nil {
		return backend.Errorf(backend.Internal, "%v", err)
	}
	return nil
}

// ordinaryMemory is Conn.ordinary as an allocator.
type ordinaryMemory struct{ c *Conn }

// Allocate implements tensor.Allocator.
func (o ordinaryMemory) Allocate(size int) (*tensor.Buffer, error) { return o.c.ordinary(size) }

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
