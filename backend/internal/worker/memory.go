package worker

import (
	"fmt"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// memoryFrames takes the frames about memory: GROW, RELEASE, DEVICES and DROPPED.
type memoryFrames struct {
	shared  guard[sharedMemory]
	outputs *segment.Outputs    // the worker's own memory
	loans   *segment.Loans      // those of shared, for what needs no lock
	pool    *segment.DevicePool // nil: no memory on GPUs
	// run answers a call of the worker beside the reader, reply answers it at once.
	run   func(id uint64, f func() (any, error)) error
	reply func(id uint64, value any, err error) error
}

// grow gives the worker more output memory. The release notices go before it: the
// worker may find that they suffice.
func (m *memoryFrames) grow(h wire.Header, body []byte) error {
	need, gpu, err := wire.DecodeGrow(body)
	if err != nil {
		return err
	}
	if gpu != nil {
		return m.growDevice(h.ID, need, *gpu)
	}
	made, err := m.outputs.Grow(need)
	if err != nil {
		return m.reply(h.ID, nil, err)
	}
	s := m.shared.lock()
	defer m.shared.unlock()
	if s.out.ended {
		return nil
	}
	s.appendReleases()
	if err := s.sendSegment(made.File(), made.Size(), made.Number(), wire.SegmentOutputs); err != nil {
		return err
	}
	s.out.flush()
	return nil
}

// growDevice gives the worker memory on a GPU. It runs beside the reader, because the
// driver may take its time.
func (m *memoryFrames) growDevice(id, need uint64, gpu tensor.GPU) error {
	if m.pool == nil {
		return m.reply(id, nil, backend.Errorf(backend.Unsupported, "this worker has no memory on GPUs"))
	}
	return m.run(id, func() (any, error) { return hostcalls.Answered, m.addDevice(need, gpu) })
}

func (m *memoryFrames) addDevice(need uint64, gpu tensor.GPU) error {
	device, err := m.pool.Allocate(gpu, need, m.outputs.OnDevice(gpu))
	if err != nil {
		return err
	}
	made, err := m.outputs.AddDevice(device)
	if err != nil {
		device.Free()
		return err
	}
	s := m.shared.lock()
	defer m.shared.unlock()
	if s.out.ended {
		return nil
	}
	s.appendReleases() // they may have made it superfluous
	s.out.frames = device.AppendSegment(s.out.frames, made.Number(), wire.SegmentDevice)
	s.out.flush()
	return nil
}

// released takes RELEASE: the worker no longer reads some blocks.
func (m *memoryFrames) released(body []byte) error {
	var done []*tensor.Buffer
	s := m.shared.lock()
	err := wire.DecodeRelease(body, func(k wire.Block) {
		if b := s.ledger.Release(k); b != nil {
			done = append(done, b)
		}
	})
	if err == nil && s.ledger.Overdrawn() {
		err = &wire.ProtocolError{Kind: wire.KindRelease, Field: "block", Offset: 4, Detail: "too many blocks that are not held"}
	}
	m.shared.unlock()
	releaseBuffers(done)
	return err
}

// sees takes DEVICES. The pool learns of the worker first: whoever knows that the worker
// takes tensors on a GPU can then allocate memory for them.
func (m *memoryFrames) sees(body []byte) error {
	gpus, err := wire.DecodeDevices(body)
	if err != nil {
		return err
	}
	s := m.shared.lock()
	twice := s.devices != nil
	m.shared.unlock()
	if twice {
		return &wire.ProtocolError{Kind: wire.KindDevices, Field: "kind", Offset: 3, Detail: "came twice"}
	}
	if m.pool != nil {
		m.pool.Enter(gpus)
	}
	s = m.shared.lock()
	s.devices = append([]tensor.GPU{}, gpus...)
	m.shared.unlock()
	return nil
}

// leaveDevices undoes sees: the worker is gone.
func (m *memoryFrames) leaveDevices() {
	s := m.shared.lock()
	gpus := s.devices
	m.shared.unlock()
	if m.pool != nil {
		m.pool.Leave(gpus)
	}
}

// dropped takes DROPPED: the worker has let go of a segment on a GPU.
func (m *memoryFrames) dropped(body []byte) error {
	number, err := wire.DecodeDropped(body)
	if err != nil {
		return err
	}
	s := m.shared.lock()
	of, told := s.lent.Dropped(number)
	m.shared.unlock()
	if !told {
		return &wire.ProtocolError{Kind: wire.KindDropped, Field: "segment", Detail: fmt.Sprintf("%d is not to be dropped", number)}
	}
	m.loans.Return(of)
	return nil
}

// dropLent has the worker unmap the segments that have ended.
func (m *memoryFrames) dropLent() {
	ended := m.loans.Ended()
	s := m.shared.lock()
	defer m.shared.unlock()
	if s.out.ended {
		return
	}
	for _, of := range ended {
		if number := s.lent.Drop(of); number != 0 {
			s.out.frames = wire.AppendDrop(s.out.frames, number)
		}
	}
	s.out.flush()
}

// returnLent lets go of everything that was lent: the worker is gone.
func (m *memoryFrames) returnLent() {
	s := m.shared.lock()
	left := s.lent.End()
	m.shared.unlock()
	for _, of := range left {
		m.loans.Return(of)
	}
}
