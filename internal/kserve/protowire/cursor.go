package protowire

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
)

// The ways in which a message can be malformed. They reach the client inside
// the transport's own text.
var (
	errTruncated = errors.New("message is cut off")
	errVarint    = errors.New("variable length integer overflow")
	errField     = errors.New("invalid field number")
	errWire      = errors.New("invalid wire type")
	errGroup     = errors.New("mismatching end group marker")
	errDepth     = errors.New("groups are nested too deep")
	errUTF8      = errors.New("string field contains invalid UTF-8")
)

// wireType is the encoding of a field's value.
type wireType uint8

const (
	wireVarint wireType = 0
	wire64     wireType = 1
	wireBytes  wireType = 2
	wireStart  wireType = 3 // a group begins
	wireEnd    wireType = 4 // a group ends
	wire32     wireType = 5
)

const (
	maxFieldNumber = 1<<29 - 1
	// maxGroupDepth is the limit of the generated code.
	maxGroupDepth = 10000
)

// span is a run of bytes within a message: where it begins and how long it is.
// It may reach over several fragments.
type span struct {
	fragment, at int
	size         int
}

// cursor reads protobuf fields from the fragments of one message, in place.
// end bounds what it reads; a submessage is read by lowering end for a while.
// A copy of a cursor is an independent cursor.
type cursor struct {
	fragments mem.BufferSlice
	rest      []byte // what is left of the present fragment
	next      int    // index of the fragment after the present one
	off       int    // offset of rest in the message
	end       int    // offset at which the (sub)message ends
}

// newCursor returns a cursor over a message. It borrows data.
func newCursor(data mem.BufferSlice) cursor {
	c := cursor{fragments: data, end: data.Len()}
	if len(data) > 0 {
		c.rest, c.next = data[0].ReadOnlyData(), 1
	}
	return c
}

// cursorAt returns a cursor over one span of a message. It borrows data.
func cursorAt(data mem.BufferSlice, s span) cursor {
	c := cursor{fragments: data, end: s.size}
	if s.size > 0 {
		c.rest, c.next = data[s.fragment].ReadOnlyData()[s.at:], s.fragment+1
	}
	return c
}

func (c *cursor) more() bool { return c.off < c.end }

// load makes rest non-empty. The caller knows that the message goes on.
func (c *cursor) load() {
	for len(c.rest) == 0 {
		c.rest = c.fragments[c.next].ReadOnlyData()
		c.next++
	}
}

// varint reads a variable-length integer.
func (c *cursor) varint() (uint64, error) {
	if c.off < c.end && len(c.rest) > 0 && c.rest[0] < 0x80 {
		v := uint64(c.rest[0])
		c.rest = c.rest[1:]
		c.off++
		return v, nil
	}
	return c.longVarint()
}

func (c *cursor) longVarint() (uint64, error) {
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		if c.off >= c.end {
			return 0, errTruncated
		}
		c.load()
		b := c.rest[0]
		c.rest = c.rest[1:]
		c.off++
		if shift == 63 && b > 1 {
			return 0, errVarint
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errVarint
}

// tag reads a field's number and wire type. The end of a group is an error
// here: no message of the protocol has groups, and skip reads foreign ones.
func (c *cursor) tag() (int, wireType, error) {
	num, wire, err := c.rawTag()
	if err == nil && wire == wireEnd {
		return 0, 0, errGroup
	}
	return num, wire, err
}

func (c *cursor) rawTag() (int, wireType, error) {
	v, err := c.varint()
	if err != nil {
		return 0, 0, err
	}
	if n := v >> 3; n < 1 || n > maxFieldNumber {
		return 0, 0, errField
	}
	return int(v >> 3), wireType(v & 7), nil
}

// length reads the length of a length-delimited value, which is then known to
// lie within the message.
func (c *cursor) length() (int, error) {
	v, err := c.varint()
	if err != nil {
		return 0, err
	}
	if v > uint64(c.end-c.off) {
		return 0, errTruncated
	}
	return int(v), nil
}

// advance passes over n bytes, which are known to lie within the message.
func (c *cursor) advance(n int) {
	c.off += n
	for n > len(c.rest) {
		n -= len(c.rest)
		c.rest = c.fragments[c.next].ReadOnlyData()
		c.next++
	}
	c.rest = c.rest[n:]
}

// take returns where the next n bytes lie, and passes over them.
func (c *cursor) take(n int) span {
	s := span{size: n}
	if n > 0 {
		c.load()
		s.fragment = c.next - 1
		s.at = c.fragments[s.fragment].Len() - len(c.rest)
	}
	c.advance(n)
	return s
}

// read fills dst, which is known to lie within the message.
func (c *cursor) read(dst []byte) {
	c.off += len(dst)
	for len(dst) > 0 {
		c.load()
		n := copy(dst, c.rest)
		dst, c.rest = dst[n:], c.rest[n:]
	}
}

// fixed reads n bytes, 4 or 8, as a little-endian number.
func (c *cursor) fixed(n int) (uint64, error) {
	if c.end-c.off < n {
		return 0, errTruncated
	}
	var b [8]byte
	c.read(b[:n])
	return binary.LittleEndian.Uint64(b[:]), nil
}

// text reads a string. It returns last itself when that is equal, which saves
// an allocation where requests resemble each other.
func (c *cursor) text(last string) (string, error) {
	n, err := c.length()
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "", nil
	}
	if n <= len(c.rest) {
		b := c.rest[:n]
		c.rest = c.rest[n:]
		c.off += n
		if string(b) == last {
			return last, nil
		}
		if !utf8.Valid(b) {
			return "", errUTF8
		}
		return string(b), nil
	}
	b := make([]byte, n)
	c.read(b)
	if !utf8.Valid(b) {
		return "", errUTF8
	}
	return string(b), nil
}

// enter begins a submessage and returns what leave needs to end it.
func (c *cursor) enter() (outer int, err error) {
	n, err := c.length()
	if err != nil {
		return 0, err
	}
	outer = c.end
	c.end = c.off + n
	return outer, nil
}

// leave ends a submessage that was read to its end.
func (c *cursor) leave(outer int) { c.end = outer }

// skip passes over the value of a field that means nothing here. Nested groups
// are followed without recursion.
func (c *cursor) skip(num int, wire wireType) error {
	if wire != wireStart {
		return c.skipPlain(wire)
	}
	open := []int{num}
	for len(open) > 0 {
		num, wire, err := c.rawTag()
		switch {
		case err != nil:
			return err
		case wire == wireStart:
			if len(open) > maxGroupDepth {
				return errDepth
			}
			open = append(open, num)
		case wire == wireEnd:
			if open[len(open)-1] != num {
				return errGroup
			}
			open = open[:len(open)-1]
		default:
			if err := c.skipPlain(wire); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cursor) skipPlain(wire wireType) error {
	var n int
	switch wire {
	case wireVarint:
		_, err := c.varint()
		return err
	case wire64:
		n = 8
	case wire32:
		n = 4
	case wireBytes:
		var err error
		if n, err = c.length(); err != nil {
			return err
		}
	default:
		return errWire
	}
	if c.end-c.off < n {
		return errTruncated
	}
	c.advance(n)
	return nil
}
