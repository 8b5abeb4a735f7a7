package transport

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
)

// maxHeaderList bounds the headers of a call, in bytes as HTTP/2 counts them. A
// call with more is refused; one with a block of more than maxBlock bytes ends
// the connection, since all of a block has to be decoded.
const (
	maxHeaderList = 64 << 10
	maxBlock      = 1 << 20
	blockPiece    = 32 << 10
)

// head is what the headers of a call say.
type head struct {
	path, method, contentType, timeout, encoding string
	fields                                       []hpack.HeaderField // metadata of the client
	size                                         int
	length                                       int64  // of the body, or -1
	pseudo                                       uint8  // which pseudo-headers have come
	regular                                      bool   // another header has come
	malformed                                    string // what no request may have
}

// field takes one header.
func (c *conn) field(f hpack.HeaderField) {
	h := &c.head
	h.check(f)
	if h.size += len(f.Name) + len(f.Value) + 32; h.size > maxHeaderList {
		return // it is refused; the table has to be kept
	}
	switch f.Name {
	case ":path":
		h.path = f.Value
	case ":method":
		h.method = f.Value
	case ":scheme", "te":
	case "grpc-timeout":
		h.timeout = f.Value
	case "grpc-encoding":
		h.encoding = f.Value
	case "grpc-message", "grpc-status", "grpc-message-type", "grpc-status-details-bin":
	case "content-type":
		h.contentType = f.Value
		h.fields = append(h.fields, f)
	default:
		h.fields = append(h.fields, f)
	}
}

// headers takes a HEADERS frame and those that continue it.
func (c *conn) headers(f frameHead) error {
	n, pad := f.length, 0
	if f.flags&flagPadded != 0 {
		b, err := c.rd.next(1)
		if err != nil {
			return err
		}
		pad = int(b[0])
		n--
	}
	if f.flags&flagPriority != 0 {
		if n < 5 {
			return fault(codeFrameSize, "HEADERS without their priority")
		}
		if _, err := c.rd.next(5); err != nil {
			return err
		}
		n -= 5
	}
	if n -= pad; n < 0 || f.stream == 0 || f.stream%2 == 0 {
		return fault(codeProtocol, "HEADERS that cannot be")
	}
	if err := c.block(f, n, pad); err != nil {
		return err
	}
	if f.stream <= c.lastID {
		return c.trailers(f)
	}
	c.lastID = f.stream
	c.history.open(f.stream)
	if f.flags&flagEndStream != 0 {
		c.history.end(f.stream)
	}
	if h := &c.head; h.malformed == "" && h.pseudo&pseudoNeeded != pseudoNeeded {
		h.malformed = "a pseudo-header is missing"
	}
	if c.head.malformed != "" {
		return c.resetUnknown(f.stream, codeProtocol)
	}
	return c.open(f)
}

// decode reads a block of headers into head. All of it must be decoded, also for
// a stream that is refused: the table is one for the connection.
func (c *conn) decode(block []byte) error {
	c.begin()
	if _, err := c.decoder.Write(block); err != nil {
		return fault(codeCompression, "headers that cannot be decoded")
	}
	if err := c.decoded(); err != nil {
		return err
	}
	c.remember(block)
	return nil
}

func (c *conn) begin() { c.head = head{fields: c.head.fields[:0], length: -1} }

func (c *conn) decoded() error {
	if err := c.decoder.Close(); err != nil {
		return fault(codeCompression, "headers that end early")
	}
	if !slices.Equal(c.fields, c.head.fields) { // clients send the same with each call
		c.fields = slices.Clone(c.head.fields)
	}
	return nil
}

// block reads a block of headers into head; usually it is in one frame, and in
// the read buffer as it is. What is larger is decoded as it comes.
func (c *conn) block(f frameHead, n, pad int) error {
	if f.flags&flagEndHeaders != 0 && n <= maxHeaderList {
		b, err := c.rd.next(n)
		if err != nil {
			return err
		}
		if !c.repeats(b) {
			if err := c.decode(b); err != nil {
				return err
			}
		}
		return c.rd.skip(pad)
	}
	c.lastBlock = c.lastBlock[:0]
	c.begin()
	var piece []byte // the decoder copies what it has with each write, so there must be few
	for size, flags := 0, f.flags; ; {
		if size += n; size > maxBlock {
			return fault(codeEnhanceCalm, "the headers are too long")
		}
		for n > 0 {
			b, err := c.rd.next(min(n, blockPiece))
			if err != nil {
				return err
			}
			n -= len(b)
			if piece = append(piece, b...); len(piece) >= blockPiece {
				if _, err := c.decoder.Write(piece); err != nil {
					return fault(codeCompression, "headers that cannot be decoded")
				}
				piece = piece[:0]
			}
		}
		if err := c.rd.skip(pad); err != nil {
			return err
		}
		if flags&flagEndHeaders != 0 {
			if _, err := c.decoder.Write(piece); err != nil {
				return fault(codeCompression, "headers that cannot be decoded")
			}
			return c.decoded()
		}
		b, err := c.rd.next(frameHeaderSize)
		if err != nil {
			return err
		}
		more := parseFrameHead(b)
		switch {
		case more.length > maxFrame:
			return fault(codeFrameSize, "a frame is longer than SETTINGS_MAX_FRAME_SIZE")
		case more.kind != frameContinuation || more.stream != f.stream:
			return fault(codeProtocol, "expected CONTINUATION")
		case more.length == 0 && more.flags&flagEndHeaders == 0:
			return fault(codeEnhanceCalm, "the headers are too long")
		}
		if err := c.spend(costFrame); err != nil {
			return err
		}
		n, pad, flags = more.length, 0, more.flags
	}
}

// maxTimeout is more than anybody waits.
const maxTimeout = 100 * 365 * 24 * time.Hour

var timeoutUnits = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}

var errTimeout = errors.New("expected up to eight digits and a unit")

// parseTimeout reads grpc-timeout.
func parseTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, errTimeout
	}
	unit := timeoutUnits[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil || unit == 0 {
		return 0, errTimeout
	}
	if n > uint64(maxTimeout/unit) {
		return maxTimeout, nil
	}
	return time.Duration(n) * unit, nil
}

// isGRPC reports whether a content type is gRPC's.
func isGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(contentType), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

const binarySuffix = "-bin"

// decodeBinary reads the value of a header that ends in -bin.
func decodeBinary(v string) (string, bool) {
	coding := base64.RawStdEncoding
	if len(v)%4 == 0 {
		coding = base64.StdEncoding
	}
	b, err := coding.DecodeString(v)
	return string(b), err == nil
}

// metadataOf makes a map of what the client sent.
func metadataOf(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		v := f.Value
		if strings.HasSuffix(f.Name, binarySuffix) {
			var ok bool
			if v, ok = decodeBinary(v); !ok {
				continue
			}
		}
		md[f.Name] = append(md[f.Name], v)
	}
	return md
}

// responseTable is what the client's header table holds of ours: the content
// type, then the status 0. Each answer then takes three bytes of headers.
type responseTable struct {
	entries int
	off     bool   // the client's table is too small
	limit   uint32 // what the client lets the table be, below defaultTableSize
	update  bool   // the client must be told that the table is not larger
}

// tableNeed is the size of the two entries as HTTP/2 counts them.
const tableNeed = len("content-type") + len(grpcType) + 32 + len("grpc-status") + 1 + 32

const grpcType = "application/grpc"

// resize obeys SETTINGS_HEADER_TABLE_SIZE. A smaller table has to be
// acknowledged by the next block of headers (RFC 7541, section 4.2), also where
// all entries stay; of a larger one no use is made.
func (t *responseTable) resize(size uint32) {
	if size >= defaultTableSize || t.limit > 0 && size >= t.limit || t.off {
		return
	}
	t.limit, t.update = size, true
	if size < uint32(tableNeed) {
		t.off, t.limit, t.entries = true, 0, 0
	}
}

const (
	indexStatus200   = 8
	indexContentType = 31
	staticEntries    = 61
)

// appendHead appends the start of every answer: status and content type.
func (t *responseTable) appendHead(b []byte, status int, contentType string) []byte {
	b = t.appendUpdate(b)
	if status == 200 {
		b = append(b, 0x80|indexStatus200)
	} else {
		b = append(b, 0x08) // :status by name
		b = appendText(b, strconv.Itoa(status))
	}
	switch {
	case t.off || contentType != grpcType:
		return appendText(append(b, 0x0f, indexContentType-0x0f), contentType)
	case t.entries == 0:
		t.entries = 1
		return appendText(append(b, 0x40|indexContentType), grpcType)
	}
	return append(b, 0x80|byte(staticEntries+t.entries))
}

// appendUpdate begins a block of headers where the client has to be told how
// large the table is.
func (t *responseTable) appendUpdate(b []byte) []byte {
	switch {
	case !t.update:
		return b
	case t.limit < 0x1f:
		b = append(b, 0x20|byte(t.limit))
	default:
		b = binary.AppendUvarint(append(b, 0x3f), uint64(t.limit-0x1f))
	}
	t.update = false
	return b
}

// appendOK appends the status of success.
func (t *responseTable) appendOK(b []byte) []byte {
	switch {
	case t.off || t.entries == 0:
		return appendField(b, "grpc-status", "0")
	case t.entries == 1:
		t.entries = 2
		return appendText(appendText(append(b, 0x40), "grpc-status"), "0")
	}
	return append(b, 0x80|staticEntries+1)
}

// appendField appends a header that is not kept in the table.
func appendField(b []byte, name, value string) []byte {
	return appendText(appendText(append(b, 0), name), value)
}

// appendText appends a string with its length, not compressed.
func appendText(b []byte, s string) []byte {
	n := len(s)
	if n < 0x7f {
		b = append(b, byte(n))
	} else {
		b = binary.AppendUvarint(append(b, 0x7f), uint64(n-0x7f))
	}
	return append(b, s...)
}

// appendMetadata appends what a handler has set.
func appendMetadata(b []byte, md metadata.MD) []byte {
	for name, values := range md {
		if strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-") && name != "grpc-retry-pushback-ms" {
			continue // the protocol's own
		}
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			b = appendField(b, name, v)
		}
	}
	return b
}

// appendMessage appends the text of a status: what is not printable ASCII is
// percent-encoded.
func appendMessage(text string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	i := 0
	for i < len(text) && plain(text[i]) {
		i++
	}
	if i == len(text) {
		return text
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// appendHeaders frames a header block, in several frames where one does not
// hold it. block lies behind place in b, with room for the frame's head.
func appendHeaders(b []byte, place int, stream uint32, endStream bool, maxFrame int) []byte {
	flags := byte(flagEndHeaders)
	if endStream {
		flags |= flagEndStream
	}
	n := len(b) - place - frameHeaderSize
	if n <= maxFrame {
		appendFrameHead(b[:place], n, frameHeaders, flags, stream)
		return b
	}
	block := append([]byte(nil), b[place+frameHeaderSize:]...)
	b = appendFrameHead(b[:place], maxFrame, frameHeaders, flags&^flagEndHeaders, stream)
	b = append(b, block[:maxFrame]...)
	for block = block[maxFrame:]; len(block) > 0; {
		k := min(len(block), maxFrame)
		more := byte(0)
		if k == len(block) {
			more = flagEndHeaders
		}
		b = append(appendFrameHead(b, k, frameContinuation, more, stream), block[:k]...)
		block = block[k:]
	}
	return b
}
