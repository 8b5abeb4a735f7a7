package wire

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Entry is a decoded tensor entry: a tensor's head and where its data lies.
type Entry struct {
	// Index is the number in the table of inputs or outputs, or -1 when Name says
	// which tensor it is.
	Index    int
	Name     []byte // view of the frame
	Datatype tensor.Datatype
	Shape    tensor.Shape
	Own      bool // the receiver may write to the block
	Segment  uint32
	Offset   uint64
	Length   uint64
}

// Inline reports whether the data is in the frame.
func (e *Entry) Inline() bool { return e.Segment == InlineSegment }

const entrySize = 24

// Place says where a tensor's data lies; inline data gets its offset later.
type Place struct {
	Segment uint32
	Offset  uint64
	// Own says that nobody else reads the block: the receiver may write to it.
	Own bool
}

// ownBlock in the datatype of an entry is Place.Own. Only instances that are
// Writable are sent it.
const ownBlock = 0x80

// appendEntry appends the entry of t, padded to 8 from base, under the number
// index, or under its name when index is -1. It returns where the offset field
// of an inline entry has to be filled in by patchInline.
func appendEntry(dst []byte, base, index int, t *tensor.Tensor, at Place) ([]byte, int, error) {
	if len(t.Shape) > 255 {
		return dst, 0, backend.Errorf(backend.InvalidArg, "tensor '%s' has %d dimensions, at most 255 are supported", t.Name, len(t.Shape))
	}
	if index < 0 && len(t.Name) >= 1<<16 {
		return dst, 0, backend.Errorf(backend.InvalidArg, "name of a tensor has %d bytes, at most 65535 are supported", len(t.Name))
	}
	le := binary.LittleEndian
	dst = pad8(dst, base)
	i := uint16(index)
	if index < 0 {
		i = namedIndex
	}
	dst = le.AppendUint16(dst, i)
	datatype := byte(t.Datatype)
	if at.Own {
		datatype |= ownBlock
	}
	dst = append(dst, datatype, byte(len(t.Shape)))
	dst = le.AppendUint32(dst, at.Segment)
	patch := len(dst)
	dst = le.AppendUint64(dst, at.Offset)
	dst = le.AppendUint64(dst, uint64(t.Size()))
	for _, d := range t.Shape {
		dst = le.AppendUint64(dst, uint64(d))
	}
	if index < 0 {
		dst = le.AppendUint16(dst, uint16(len(t.Name)))
		dst = append(dst, t.Name...)
	}
	return dst, patch, nil
}

// patchInline appends data at a multiple of 8 from base and stores its offset
// in the entry whose offset field is at patch.
func patchInline(dst []byte, base, patch int, data []byte) []byte {
	dst = pad8(dst, base)
	binary.LittleEndian.PutUint64(dst[patch:], uint64(len(dst)-base))
	return append(dst, data...)
}

// Entry decodes one tensor entry. Its shape is appended to dims, which the
// caller may have made large enough to avoid an allocation. The byte count of
// the data is checked against datatype and shape, inline data against the
// body; the caller checks segments, and the elements of BYTES.
func (c *Cursor) Entry(dims tensor.Shape) (e Entry, rest tensor.Shape) {
	c.align()
	start := c.off
	b := c.take(entrySize, "tensor entry")
	if b == nil {
		return e, dims
	}
	le := binary.LittleEndian
	index, ndim := le.Uint16(b), int(b[3])
	e.Datatype, e.Own = tensor.Datatype(b[2]&^ownBlock), b[2]&ownBlock != 0
	e.Segment, e.Offset, e.Length = le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:])
	e.Index = int(index)
	if !e.Datatype.Valid() || e.Own && e.Inline() {
		c.Fail("datatype", start+2, "%d is unknown", b[2])
		return e, dims
	}
	shape := c.take(8*ndim, "shape")
	from := len(dims)
	for i := 0; i < len(shape); i += 8 {
		d := int64(le.Uint64(shape[i:]))
		if d < 0 {
			c.Fail("shape", start+entrySize+i, "dimension %d is negative", d)
			return e, dims
		}
		dims = append(dims, d)
	}
	e.Shape = dims[from:len(dims):len(dims)]
	if index == namedIndex {
		e.Index = -1
		n := c.take(2, "name length")
		if n == nil {
			return e, dims
		}
		e.Name = c.take(int(le.Uint16(n)), "name")
	}
	if c.err != nil {
		return e, dims
	}
	want, err := tensor.ByteSize(e.Datatype, e.Shape)
	switch {
	case err != nil:
		c.Fail("shape", start+entrySize, "%s: %v", e.Shape, err)
	case e.Datatype != tensor.Bytes && e.Length != uint64(want), e.Length < uint64(want):
		c.Fail("length", start+16, "%d bytes for %s of shape %s, expected %d", e.Length, e.Datatype, e.Shape, want)
	case e.Inline() && (e.Offset%8 != 0 || e.Offset > uint64(len(c.body)) || e.Length > uint64(len(c.body))-e.Offset):
		c.Fail("offset", start+8, "%d with %d bytes is outside the body of %d bytes or not a multiple of 8", e.Offset, e.Length, len(c.body))
	}
	return e, dims
}

// skipInline moves the cursor over the inline data that the entries refer to:
// the rest of the body is theirs. Without any only padding may follow.
func (c *Cursor) skipInline(inline bool) error {
	if inline || len(c.body)-c.off < 8 {
		c.off = len(c.body)
	}
	return c.end()
}

// CheckBytes checks that data holds exactly the elements that shape asks for.
func CheckBytes(data []byte, shape tensor.Shape) error {
	n, err := tensor.CountBytes(data)
	if err != nil {
		return err
	}
	if want, err := shape.Elements(); err != nil || int64(n) != want {
		return backend.Errorf(backend.Internal, "%d elements for shape %s", n, shape)
	}
	return nil
}
