package wire

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// AppendExecuteBatch appends an EXECUTE_BATCH frame: the requests with their
// rows, and the inputs concatenated along the batch axis.
func (e *Encoder) AppendExecuteBatch(
	dst []byte, instance uint32, id uint64, b *backend.Batch, handles []uint64, tables *Tables, at Placer,
) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, KindExecuteBatch, instance, id)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(b.Requests)))
	dst = le.AppendUint32(dst, uint32(b.Size))
	for i, r := range b.Requests {
		dst = le.AppendUint64(dst, handles[i])
		dst = le.AppendUint32(dst, uint32(max(1, r.BatchSize)))
		dst = le.AppendUint32(dst, 0)
	}
	dst = le.AppendUint32(dst, uint32(len(b.Inputs)))
	dst = pad8(dst, base)
	var err error
	for i := range b.Inputs {
		t := &b.Inputs[i]
		if dst, err = e.entry(dst, base, tables.Input(t.Name, i), t, at.Put(b.Inputs, i)); err != nil {
			e.reset()
			return dst[:begin], err
		}
	}
	return endFrame(e.inline(dst, base), base)
}

// BatchBlock is a decoded EXECUTE_BATCH body.
type BatchBlock struct {
	Handles []uint64
	Rows    []uint32
	Total   uint32
	Inputs  []Entry
}

// DecodeExecuteBatch decodes the body of an EXECUTE_BATCH frame.
func DecodeExecuteBatch(body []byte) (b BatchBlock, err error) {
	c := Cursor{kind: KindExecuteBatch, body: body}
	n := c.u32("count")
	b.Total = c.u32("rows")
	if uint64(n)*16 > uint64(len(body)) {
		c.Fail("count", 0, "%d requests do not fit", n)
		return BatchBlock{}, c.err
	}
	sum := uint64(0)
	for range n {
		handle, rows, pad := c.u64("handle"), c.u32("rows"), c.u32("reserved")
		if pad != 0 {
			c.Fail("reserved", c.off-4, "%d, expected 0", pad)
		}
		b.Handles, b.Rows = append(b.Handles, handle), append(b.Rows, rows)
		sum += uint64(rows)
	}
	if c.err == nil && sum != uint64(b.Total) {
		c.Fail("rows", 4, "%d, the requests have %d", b.Total, sum)
	}
	b.Inputs, err = c.entries()
	if err != nil {
		return BatchBlock{}, err
	}
	return b, nil
}

// entries reads `u32 n`, padding, n entries and the inline data.
func (c *Cursor) entries() ([]Entry, error) {
	at := c.off
	n := c.u32("tensors")
	c.align()
	return c.countedEntries(n, at)
}

func (c *Cursor) countedEntries(n uint32, at int) ([]Entry, error) {
	if c.err == nil && uint64(n)*entrySize > uint64(len(c.body)-c.off) {
		c.Fail("tensors", at, "%d entries do not fit", n)
	}
	var all []Entry
	inline := false
	for range n {
		if c.err != nil {
			return nil, c.err
		}
		e, _ := c.Entry(nil)
		inline = inline || e.Inline()
		all = append(all, e)
	}
	if err := c.skipInline(inline); err != nil {
		return nil, err
	}
	return all, nil
}

// FlagHeld in RESULT_BATCH says that inputs of the batch are still referenced:
// a RELEASE will come for each that lies in shared memory.
const FlagHeld = 2

// DecodeResultBatch decodes the body of a RESULT_BATCH frame.
func DecodeResultBatch(body []byte) (outputs []Entry, flags uint32, err error) {
	c := Cursor{kind: KindResultBatch, body: body}
	n, flags := c.u32("outputs"), c.u32("flags")
	if flags&^(FlagEnds|FlagHeld) != 0 {
		c.Fail("flags", 4, "0x%X has unknown bits", flags)
	}
	outputs, err = c.countedEntries(n, 0)
	return outputs, flags, err
}

// AppendResultBatch appends a RESULT_BATCH frame; workers written in Go and
// the tests send it.
func (e *Encoder) AppendResultBatch(
	dst []byte, instance uint32, id uint64, flags uint32, outputs []tensor.Tensor, indices []int, places []Place,
) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, KindResultBatch, instance, id)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(outputs)))
	dst = binary.LittleEndian.AppendUint32(dst, flags)
	for i := range outputs {
		at := Place{Segment: InlineSegment}
		if places != nil {
			at = places[i]
		}
		var err error
		if dst, err = e.entry(dst, base, indices[i], &outputs[i], at); err != nil {
			e.reset()
			return dst[:begin], err
		}
	}
	return endFrame(e.inline(dst, base), base)
}
