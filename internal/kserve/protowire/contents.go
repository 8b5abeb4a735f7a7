package protowire

import (
	"encoding/binary"

	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/tensor"
)

// contentsField is the number of a field of InferTensorContents.
type contentsField int

const (
	boolContents contentsField = 1 + iota
	intContents
	int64Contents
	uintContents
	uint64Contents
	fp32Contents
	fp64Contents
	bytesContents
	contentsFields
)

// contents is a typed InferTensorContents still in the message: where it
// lies, and how many elements of which field it has. Sizes are known before
// anything is allocated for them.
type contents struct {
	present bool
	spans   []span // several when the field was sent in parts
	count   [contentsFields]int
	text    int // bytes of all elements of bytes_contents
}

func (t *contents) reset() {
	*t = contents{spans: trim(t.spans)}
}

// parse reads one occurrence of the field: it checks and counts.
func (t *contents) parse(c *cursor, q *Request) error {
	outer, err := c.enter()
	if err != nil {
		return err
	}
	t.present = true
	whole := *c
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		if f := contentsField(num); f.accepts(wire) {
			err = t.add(c, f, wire)
		} else {
			err = c.skip(num, wire)
		}
		if err != nil {
			return err
		}
	}
	size := c.off - whole.off
	c.leave(outer)
	switch {
	case size == 0:
	case len(t.spans) >= maxContents:
		q.fault("parts of contents", maxContents)
	default:
		t.spans = append(t.spans, whole.take(size))
	}
	return nil
}

// accepts reports whether the field is known and may be encoded this way:
// numbers come packed or one by one.
func (f contentsField) accepts(wire wireType) bool {
	switch f {
	case boolContents, intContents, int64Contents, uintContents, uint64Contents:
		return wire == wireVarint || wire == wireBytes
	case fp32Contents:
		return wire == wire32 || wire == wireBytes
	case fp64Contents:
		return wire == wire64 || wire == wireBytes
	case bytesContents:
		return wire == wireBytes
	default:
		return false
	}
}

// add counts the elements of one field occurrence and passes over it.
func (t *contents) add(c *cursor, f contentsField, wire wireType) error {
	if wire != wireBytes {
		t.count[f]++
		return c.skipPlain(wire)
	}
	n, err := c.length()
	if err != nil {
		return err
	}
	var width int
	switch f {
	case bytesContents:
		t.count[f]++
		t.text += n
		c.advance(n)
		return nil
	case fp32Contents:
		width = 4
	case fp64Contents:
		width = 8
	default:
		outer := c.end
		c.end = c.off + n
		for c.more() {
			if _, err := c.varint(); err != nil {
				return err
			}
			t.count[f]++
		}
		c.end = outer
		return nil
	}
	if n%width != 0 {
		return errTruncated
	}
	t.count[f] += n / width
	c.advance(n)
	return nil
}

// size returns how many bytes the elements of field f take up in a tensor of
// datatype d.
func (t *contents) size(f contentsField, d tensor.Datatype) int {
	if f == bytesContents {
		return 4*t.count[f] + t.text
	}
	return t.count[f] * d.Size()
}

// datatype returns the datatype that field f holds when the tensor is of
// datatype want: the narrow integers share a field.
func (f contentsField) datatype(want tensor.Datatype) tensor.Datatype {
	switch f {
	case boolContents:
		return tensor.Bool
	case intContents:
		if want == tensor.Int8 || want == tensor.Int16 {
			return want
		}
		return tensor.Int32
	case int64Contents:
		return tensor.Int64
	case uintContents:
		if want == tensor.Uint8 || want == tensor.Uint16 {
			return want
		}
		return tensor.Uint32
	case uint64Contents:
		return tensor.Uint64
	case fp32Contents:
		return tensor.FP32
	case fp64Contents:
		return tensor.FP64
	default:
		return tensor.Bytes
	}
}

// write stores the elements of field f into dst, which has exactly size bytes.
// The message was checked by parse.
func (t *contents) write(dst []byte, message mem.BufferSlice, f contentsField, d tensor.Datatype) {
	for _, s := range t.spans {
		for c := cursorAt(message, s); c.more(); {
			num, wire, _ := c.tag()
			if contentsField(num) != f || !f.accepts(wire) {
				_ = c.skip(num, wire)
				continue
			}
			dst = c.writeField(dst, f, wire, d)
		}
	}
}

// writeField stores the elements of one field occurrence and returns the rest
// of dst.
func (c *cursor) writeField(dst []byte, f contentsField, wire wireType, d tensor.Datatype) []byte {
	end := c.off // one plain value
	if wire == wireBytes {
		n, _ := c.length()
		end = c.off + n
	}
	switch f {
	case bytesContents:
		n := end - c.off
		binary.LittleEndian.PutUint32(dst, uint32(n))
		c.read(dst[4 : 4+n])
		return dst[4+n:]
	case fp32Contents, fp64Contents:
		n := d.Size()
		if wire == wireBytes {
			n = end - c.off
		}
		c.read(dst[:n])
		return dst[n:]
	default:
		if wire != wireBytes {
			return c.writeInteger(dst, d)
		}
		for c.off < end {
			dst = c.writeInteger(dst, d)
		}
		return dst
	}
}

// writeInteger stores the next integer as an element of datatype d and returns
// the rest of dst. Wider values are cut off, as a cast does.
func (c *cursor) writeInteger(dst []byte, d tensor.Datatype) []byte {
	v, _ := c.varint()
	switch d.Size() {
	case 1:
		if d == tensor.Bool && v != 0 {
			v = 1
		}
		dst[0] = byte(v)
		return dst[1:]
	case 2:
		binary.LittleEndian.PutUint16(dst, uint16(v))
		return dst[2:]
	case 4:
		binary.LittleEndian.PutUint32(dst, uint32(v))
		return dst[4:]
	default:
		binary.LittleEndian.PutUint64(dst, v)
		return dst[8:]
	}
}
