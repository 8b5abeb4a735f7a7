package wire

import (
	"encoding/binary"
	"fmt"
)

// Kind says what a frame carries.
type Kind uint8

// The kinds of frames, with their numbers on the wire.
const (
	KindHello Kind = iota + 1
	KindLoad
	KindInit
	KindReady
	KindFailed
	KindExecute
	KindExecuteBatch
	KindResponses
	KindResultBatch
	KindDone
	KindCancel
	KindInfer
	KindInferResponses
	KindSegment
	KindGrow
	KindRelease
	KindLog
	KindMetric
	KindControl
	KindBind
	KindUnbind
	KindUnload
	KindExit
	KindFork
	KindForked
	KindExited
	KindCredit
	KindDrop
	KindDropped
	KindDevices
	KindNotBegun
	KindFree
	KindTimes
	KindActivity
	KindPinned
)

var kindNames = [...]string{
	"", "HELLO", "LOAD", "INIT", "READY", "FAILED", "EXECUTE", "EXECUTE_BATCH", "RESPONSES", "RESULT_BATCH", "DONE",
	"CANCEL", "INFER", "INFER_RESPONSES", "SEGMENT", "GROW", "RELEASE", "LOG", "METRIC", "CONTROL", "BIND", "UNBIND",
	"UNLOAD", "EXIT", "FORK", "FORKED", "EXITED", "CREDIT", "DROP", "DROPPED", "DEVICES",
	"NOT_BEGUN", "FREE", "TIMES", "ACTIVITY", "PINNED",
}

// String returns the name used in the protocol's documentation.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

const (
	frameMagic = 0x574E
	// Version is that of the protocol.
	Version = 1
	// HeaderSize is the size of every frame's header in bytes.
	HeaderSize = 24
	// MaxBody is the largest body of a frame in bytes.
	MaxBody = 1 << 30
	// InlineSegment in a tensor entry says that the data is in the frame.
	InlineSegment = 0xFFFFFFFF
	// NearSegment in a tensor entry says that the data lies where the sender of the request
	// wants it: the offset is a number of package near, for a worker in the server's process.
	NearSegment = 0xFFFFFFFE
	// namedIndex in a tensor entry says that the tensor's name follows.
	namedIndex = 0xFFFF
)

// Header is the head of a frame.
type Header struct {
	Kind     Kind
	Length   uint32
	Instance uint32
	ID       uint64
}

// ProtocolError says which field of which frame broke the protocol.
type ProtocolError struct {
	Kind   Kind // 0 while the kind is not known
	Field  string
	Offset int // of the field, from the start of the header or of the body
	Detail string
}

func (e *ProtocolError) Error() string {
	where := "frame header"
	if e.Kind != 0 {
		where = e.Kind.String() + " frame"
	}
	return fmt.Sprintf("worker protocol: %s: %s at offset %d: %s", where, e.Field, e.Offset, e.Detail)
}

func headerError(field string, offset int, format string, args ...any) error {
	return &ProtocolError{Field: field, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

// ParseHeader decodes the first HeaderSize bytes of b.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, headerError("header", 0, "%d bytes, need %d", len(b), HeaderSize)
	}
	le := binary.LittleEndian
	if m := le.Uint16(b); m != frameMagic {
		return Header{}, headerError("magic", 0, "0x%04X, expected 0x%04X", m, frameMagic)
	}
	if b[2] != Version {
		return Header{}, headerError("version", 2, "%d, expected %d", b[2], Version)
	}
	h := Header{Kind: Kind(b[3]), Length: le.Uint32(b[4:]), Instance: le.Uint32(b[8:]), ID: le.Uint64(b[16:])}
	if h.Kind < KindHello || h.Kind > KindPinned {
		return Header{}, headerError("kind", 3, "%d is unknown", b[3])
	}
	if h.Length > MaxBody {
		return Header{}, headerError("length", 4, "%d bytes, at most %d", h.Length, MaxBody)
	}
	if r := le.Uint32(b[12:]); r != 0 {
		return Header{}, headerError("reserved", 12, "%d, expected 0", r)
	}
	return h, nil
}

// beginFrame appends a header whose length endFrame fills in; it returns the
// grown slice and the index where the body starts.
func beginFrame(dst []byte, kind Kind, instance uint32, id uint64) ([]byte, int) {
	le := binary.LittleEndian
	dst = le.AppendUint16(dst, frameMagic)
	dst = append(dst, Version, byte(kind))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, instance)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, id)
	return dst, len(dst)
}

// endFrame stores the length of the body that starts at body. A frame that is
// too long is taken back: dst is cut to where beginFrame found it.
func endFrame(dst []byte, body int) ([]byte, error) {
	n := len(dst) - body
	if n > MaxBody {
		kind := Kind(dst[body-HeaderSize+3])
		tooLong := &ProtocolError{Kind: kind, Field: "length", Offset: 4, Detail: fmt.Sprintf("%d bytes, at most %d", n, MaxBody)}
		return dst[:body-HeaderSize], tooLong
	}
	binary.LittleEndian.PutUint32(dst[body-HeaderSize+4:], uint32(n))
	return dst, nil
}

// AppendFrame appends a frame with the given body.
func AppendFrame(dst []byte, kind Kind, instance uint32, id uint64, body []byte) ([]byte, error) {
	dst, start := beginFrame(dst, kind, instance, id)
	return endFrame(append(dst, body...), start)
}

// pad8 appends zero bytes until the length counted from base is a multiple of 8.
func pad8(dst []byte, base int) []byte {
	for (len(dst)-base)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// Cursor reads a body; the first read past its end sets err, and all reads
// after that give zero values.
type Cursor struct {
	kind Kind
	body []byte
	off  int
	err  error
}

// NewCursor returns one at the start of the body of a frame.
func NewCursor(kind Kind, body []byte) Cursor { return Cursor{kind: kind, body: body} }

// Err is what is wrong with the body, as far as it was read.
func (c *Cursor) Err() error { return c.err }

// Offset is how far the body was read, in bytes.
func (c *Cursor) Offset() int { return c.off }

// Inline returns the data of an entry that lies in the frame.
func (c *Cursor) Inline(e *Entry) []byte {
	return c.body[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
}

// Fail notes what is wrong with a field; the first fault counts.
func (c *Cursor) Fail(field string, offset int, format string, args ...any) {
	if c.err == nil {
		c.err = &ProtocolError{Kind: c.kind, Field: field, Offset: offset, Detail: fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes, or nil with err set.
func (c *Cursor) take(n int, field string) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.body)-c.off {
		c.Fail(field, c.off, "needs %d bytes, %d left", n, len(c.body)-c.off)
		return nil
	}
	b := c.body[c.off : c.off+n : c.off+n]
	c.off += n
	return b
}

// align moves on to the next multiple of 8.
func (c *Cursor) align() {
	if n := -c.off & 7; n != 0 {
		c.take(n, "padding")
	}
}

func (c *Cursor) u32(field string) uint32 {
	if b := c.take(4, field); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *Cursor) u64(field string) uint64 {
	if b := c.take(8, field); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// end checks that the whole body was read.
func (c *Cursor) end() error {
	if c.err == nil && c.off != len(c.body) {
		c.Fail("end", c.off, "%d bytes too many", len(c.body)-c.off)
	}
	return c.err
}
