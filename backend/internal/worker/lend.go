package worker

import (
	"fmt"

	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// lend has the worker map the segment of somebody else that the tensor lies in,
// if it has not yet. False: the tensor has to be copied. The answer holds as
// long as the tensor's buffer. Memory on a GPU is for workers only that have said
// that they see it; whether this reader takes it is for the caller to know.
func (c *Conn) lend(t *tensor.Tensor) (wire.Place, bool) {
	s, offset, ok := segment.Of(t)
	if !ok {
		return wire.Place{}, false
	}
	gpu := s.Device()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || gpu == nil && !c.borrows || gpu != nil && !c.seesLocked(gpu.GPU()) {
		return wire.Place{}, false
	}
	number, known := c.lent.Number(s)
	if !known {
		number = c.lendLocked(s)
	}
	return wire.Place{Segment: number, Offset: offset}, number != 0
}

// lendLocked hands the segment over under a new number; 0 when that cannot be.
func (c *Conn) lendLocked(s *segment.Segment) uint32 {
	number := c.lent.Next()
	switch {
	case number == 0:
	case s.Device() != nil:
		c.out = s.Device().AppendSegment(c.out, number, wire.SegmentDeviceLent)
	default:
		file, err := s.ReadOnly()
		if err == nil {
			err = c.sendSegmentLocked(file, s.Size(), number, wire.SegmentLent)
			_ = file.Close()
		}
		if err != nil {
			number = 0
		}
	}
	c.lent.Lend(s, number)
	return number
}

// lentLocked says where the tensor lies in a segment that was lent for it.
func (c *Conn) lentLocked(inst *Instance, t *tensor.Tensor) (wire.Block, bool) {
	if inst.Writable && !inst.Lent {
		return wire.Block{}, false
	}
	s, offset, ok := segment.Of(t)
	if !ok || s.Device() != nil && !inst.TakesDevice {
		return wire.Block{}, false
	}
	number, _ := c.lent.Number(s)
	return wire.Block{Segment: number, Offset: offset}, number != 0
}

// dropLent has the worker unmap the segments that have ended.
func (c *Conn) dropLent() {
	ended := c.lent.Ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	for _, s := range ended {
		if number := c.lent.Drop(s); number != 0 {
			c.out = wire.AppendDrop(c.out, number)
		}
	}
	c.flushLocked()
}

// returnLent lets go of everything that was lent: the worker is gone.
func (c *Conn) returnLent() {
	c.mu.Lock()
	left := c.lent.End()
	c.mu.Unlock()
	for _, s := range left {
		c.lent.Return(s)
	}
}

// dropped takes the worker's word that it has let go of a segment on a GPU.
func (c *reading) dropped(body []byte) error {
	number, err := wire.DecodeDropped(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	s, told := c.lent.Dropped(number)
	c.mu.Unlock()
	if !told {
		return &wire.ProtocolError{Kind: wire.KindDropped, Field: "segment", Detail: fmt.Sprintf("%d is not to be dropped", number)}
	}
	c.lent.Return(s)
	return nil
}
