package worker

import (
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// lend has the worker map the segment that the tensor lies in, which belongs to another
// model, unless it has done so before. It returns false where the tensor has to be copied.
// The answer holds as long as the tensor's buffer. Memory on a GPU goes only to workers
// that have said that they see the GPU; the caller knows whether the model takes it.
func (c *Conn) lend(t *tensor.Tensor) (wire.Place, bool) {
	s, offset, ok := segment.Of(t)
	if !ok {
		return wire.Place{}, false
	}
	number := c.lock().shared.lend(s)
	c.unlock()
	return wire.Place{Segment: number, Offset: offset}, number != 0
}
