package inflight

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/reader"
	"github.com/nesoserve/neso/tensor"
)

// Batch is a batch that the worker has, or is about to have.
type Batch[I any] struct {
	ID       uint64 // rises in the order in which batches are sent; 0 before
	Batch    *backend.Batch
	Instance I
	Handles  []uint64
	Copies   []Copy          // of a gathered batch; those of requests are in Request
	Outputs  []tensor.Tensor // of a gathered batch, to be divided
	Context  <-chan struct{} // closed when the context ends that it runs under; nil for never
	Started  bool            // no Execute waits for it: whoever ends it calls Batch.Ended
	Chained  bool            // a model waits for its answer with all its thread: part of a chain of calls

	Err   error            // what became of it
	Ended bool             // nothing of it is left to do but what Execute does at the end
	Wake  chan reader.Wake // for its Execute, while that waits

	expired  bool   // answered by the timeout
	waits    bool   // sent ahead, and not begun as far as is known
	place    uint64 // how many the pipeline had been sent before
	pipeline *Pipeline[I]
}

// Copy is an input that had to be brought into shared memory.
type Copy struct {
	Request int            // index in the batch
	Data    *byte          // first byte of the input, which with the size identifies it
	Device  *tensor.Buffer // of an input on a GPU, likewise
	Buffer  *tensor.Buffer
}

// Of reports whether it is a copy of what t holds. An input that begins where t does
// need not end there.
func (c *Copy) Of(t *tensor.Tensor) bool {
	if c.Buffer.Len() != t.Size() {
		return false
	}
	if len(t.Data) == 0 {
		return c.Device == t.Buffer
	}
	return c.Data == &t.Data[0]
}

// Expired reports whether the requests have been answered by the timeout.
func (b *Batch[I]) Expired() bool { return b.expired }

// Reset makes it ready for another batch. It keeps the memory of its lists.
func (b *Batch[I]) Reset() {
	clear(b.Copies)
	*b = Batch[I]{Handles: b.Handles[:0], Copies: b.Copies[:0], Wake: b.Wake}
}

// DropCopies empties the list of copies, whose references are now somebody else's.
func (b *Batch[I]) DropCopies() {
	clear(b.Copies)
	b.Copies = b.Copies[:0]
}

// begins tells the scheduler that the worker has begun what waited.
func (b *Batch[I]) begins() {
	if b.waits {
		b.waits = false
		b.Batch.Progress.Begins()
	}
}
