package worker

import (
	"encoding/json"
	"errors"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// callRoom is how many bytes may wait for a worker that does not read while it gets
// responses to its own calls.
const callRoom = 4 << 20

// sendAnswer sends a response to a call; see hostcalls.Worker.
func (c *Conn) sendAnswer(a hostcalls.Answer, wait bool) error {
	unsent, err := c.writeAnswer(&a, wait)
	hostcalls.ReleaseShared(unsent)
	return err
}

// writeAnswer returns what is shared and was not sent, to be released without the
// lock.
func (c *Conn) writeAnswer(a *hostcalls.Answer, wait bool) (unsent []hostcalls.Shared, err error) {
	s := c.lock()
	defer c.unlock()
	if wait {
		s.out.awaitRoom(callRoom)
	}
	if s.err != nil {
		return a.Shared, ErrEnded
	}
	s.shared.appendReleases()
	for k, part := range a.Shared {
		if !part.Lent {
			r := part.Buf.Region()
			number, err := s.shared.number(a.Arena, r.Segment)
			if err != nil {
				return a.Shared[k:], err
			}
			a.Out.Places[part.Output] = wire.Place{Segment: number, Offset: r.Offset}
		}
		at := a.Out.Places[part.Output]
		s.shared.ledger.Give(wire.Block{Segment: at.Segment, Offset: at.Offset}, part.Buf)
	}
	if a.Pinned > 0 {
		s.out.frames = wire.AppendPinned(s.out.frames, a.Out.Handle, a.Pinned)
	}
	list := []wire.Outgoing{a.Out}
	if s.out.frames, err = s.out.enc.AppendResponses(s.out.frames, wire.KindInferResponses, 0, a.Out.Handle, 0, list); err != nil {
		return nil, err
	}
	s.out.flush()
	return nil, nil
}

// reply answers a call of the worker with READY, or FAILED when err is set.
func (c *Conn) reply(id uint64, value any, err error) error {
	kind := wire.KindReady
	if err != nil {
		failed := wire.FailedBody{Message: err.Error()}
		if e, ok := errors.AsType[*backend.Error](err); ok {
			failed.Code = int(e.Code)
		}
		kind, value = wire.KindFailed, failed
	} else if value == nil {
		value = struct{}{}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	s := c.lock()
	defer c.unlock()
	if s.err != nil {
		return nil
	}
	if err := s.out.append(kind, 0, id, text); err != nil {
		return err
	}
	s.out.flush()
	return nil
}
