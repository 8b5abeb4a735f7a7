package worker

import (
	"os"
	"slices"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/inflight"
	"github.com/nesoserve/neso/backend/internal/worker/ledger"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

const (
	// releaseDelay is how long a block's release waits for a frame to ride on.
	releaseDelay = time.Millisecond
	// releaseBatch is how many releases do not wait any longer.
	releaseBatch = 64
)

// sharedMemory is the memory that the server shares with the worker: which segments it has
// been given, under which numbers, and which blocks in them it reads. It is part of
// state.
type sharedMemory struct {
	out  *outbox
	ends *channel.Ends       // what takes them
	pool *segment.DevicePool // nil: no memory on GPUs

	inputs  []inputSegment // by number
	arenas  map[*segment.Arena][]uint32
	lent    segment.Loans
	borrows bool         // the worker knows segments of others, and DROP
	devices []tensor.GPU // that the worker sees; nil before DEVICES
	ledger  ledger.Ledger

	releases *time.Timer // flushes them; armed while there are some and never otherwise
	armed    bool
}

type inputSegment struct {
	arena *segment.Arena
	index int
}

// sendSegment hands a segment to the worker. Descriptor and frame leave in the same
// order because both happen under the lock.
func (s *sharedMemory) sendSegment(file *os.File, size uint64, number, kind uint32) error {
	if err := s.ends.Pass(file); err != nil {
		return err
	}
	s.out.frames = wire.AppendSegment(s.out.frames, number, kind, size)
	return nil
}

// number returns the number under which the worker knows the segment of the arena,
// handing it over first if need be.
func (s *sharedMemory) number(a *segment.Arena, index uint32) (uint32, error) {
	known := s.arenas[a]
	for uint32(len(known)) <= index {
		number := uint32(len(s.inputs))
		next := a.SegmentAt(len(known))
		if err := s.sendSegment(next.File(), next.Size(), number, wire.SegmentInputs); err != nil {
			return 0, err
		}
		s.inputs = append(s.inputs, inputSegment{a, len(known)})
		known = append(known, number)
		s.arenas[a] = known
	}
	return known[index], nil
}

// handOver hands over the segments that a batch may refer to, before its frame is
// begun: a SEGMENT frame must not end up inside it.
func (s *sharedMemory) handOver(a *segment.Arena) error {
	if a == nil || a.Segments() <= len(s.arenas[a]) {
		return nil
	}
	_, err := s.number(a, uint32(a.Segments()-1))
	return err
}

// at returns the segment of inputs, or of others, that the worker knows by a number.
func (s *sharedMemory) at(number uint32) (*segment.Segment, bool) {
	if uint64(number) < uint64(len(s.inputs)) {
		in := s.inputs[number]
		return in.arena.SegmentAt(in.index), true
	}
	return s.lent.At(number)
}

// lend has the worker map the segment of somebody else that the tensor lies in, if it
// has not yet; see Conn.lend.
func (s *sharedMemory) lend(of *segment.Segment) (number uint32) {
	gpu := of.Device()
	if s.out.ended || gpu == nil && !s.borrows || gpu != nil && !s.sees(gpu.GPU()) {
		return 0
	}
	number, known := s.lent.Number(of)
	if !known {
		number = s.lendNew(of)
	}
	return number
}

// lendNew hands the segment over under a new number; 0 when that cannot be.
func (s *sharedMemory) lendNew(of *segment.Segment) uint32 {
	number := s.lent.Next()
	switch {
	case number == 0:
	case of.Device() != nil:
		s.out.frames = of.Device().AppendSegment(s.out.frames, number, wire.SegmentDeviceLent)
	default:
		file, err := of.ReadOnly()
		if err == nil {
			err = s.sendSegment(file, of.Size(), number, wire.SegmentLent)
			_ = file.Close()
		}
		if err != nil {
			number = 0
		}
	}
	s.lent.Lend(of, number)
	return number
}

// lentTo says where the tensor lies in a segment that was lent for it.
func (s *sharedMemory) lentTo(inst *Instance, t *tensor.Tensor) (wire.Block, bool) {
	if inst.Writable && !inst.Lent {
		return wire.Block{}, false
	}
	of, offset, ok := segment.Of(t)
	if !ok || of.Device() != nil && !inst.TakesDevice {
		return wire.Block{}, false
	}
	number, _ := s.lent.Number(of)
	return wire.Block{Segment: number, Offset: offset}, number != 0
}

// sees reports whether the worker sees a GPU that it can be given memory on.
func (s *sharedMemory) sees(gpu tensor.GPU) bool {
	return s.pool != nil && slices.Contains(s.devices, gpu)
}

// hold keeps the inputs of a request in place that the model still refers to, until
// RELEASE comes for each of them.
func (s *sharedMemory) hold(r *inflight.Request[*Instance]) {
	s.holdInputs(r.Instance, r.Request.Inputs)
	for _, b := range r.Copies {
		s.holdBlock(r.Instance.Arena, b.Region(), b)
	}
}

// holdBatch does the same for a gathered batch.
func (s *sharedMemory) holdBatch(b *batch) {
	s.holdInputs(b.Instance, b.Batch.Inputs)
	for i := range b.Copies {
		s.holdBlock(b.Instance.Arena, b.Copies[i].Buffer.Region(), b.Copies[i].Buffer)
	}
}

func (s *sharedMemory) holdInputs(inst *Instance, inputs []tensor.Tensor) {
	for i := range inputs {
		t := &inputs[i]
		if len(t.Data) <= inst.InlineLimit && !t.OnDevice() {
			continue
		}
		if at, ok := inst.Arena.Locate(t); ok {
			s.holdBlock(inst.Arena, tensor.Region{Segment: at.Segment, Offset: at.Offset}, t.Buffer)
		} else if at, ok := s.lentTo(inst, t); ok {
			s.ledger.Hold(at, t.Buffer)
		}
	}
}

func (s *sharedMemory) holdBlock(arena *segment.Arena, at tensor.Region, buf *tensor.Buffer) {
	known := s.arenas[arena]
	if at.Segment >= uint32(len(known)) {
		return
	}
	s.ledger.Hold(wire.Block{Segment: known[at.Segment], Offset: at.Offset}, buf)
}

// release notes that the worker may reuse a block. The notice rides on the next frame,
// or leaves by itself after a short while.
func (s *sharedMemory) release(k wire.Block) {
	if s.out.ended {
		return
	}
	switch n := s.ledger.Return(k); {
	case n >= releaseBatch:
		s.appendReleases()
		s.out.flush()
	case !s.armed:
		s.armed = true
		s.releases.Reset(releaseDelay)
	}
}

// appendReleases puts the collected notices in front of the next frame.
func (s *sharedMemory) appendReleases() { s.out.frames = s.ledger.AppendReturns(s.out.frames) }

// flushReleases is the event of the timer.
func (s *sharedMemory) flushReleases() {
	s.armed = false
	if !s.out.ended && s.ledger.Returns() {
		s.appendReleases()
		s.out.flush()
	}
}
