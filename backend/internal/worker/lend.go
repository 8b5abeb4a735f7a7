package worker

import (
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
	number := c.lock().shared.lend(s)
	c.unlock()
	return wire.Place{Segment: number, Offset: offset}, number != 0
}
