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

// maxHeaderList bounds the headers of a call, in bytes as HTTP/2 counts them,
// and their block on the wire.
const maxHeaderList = 64 << 10

// head is what the headers of a call say.
type head struct {
	path, method, contentType, timeout, encoding string
	fields                                       []hpack.HeaderField // metadata of the client
	size                                         int
	bad                                          string // what is wrong with the headers
}

// field takes one header.
func (c *conn) field(f hpack.HeaderField) {
	h := &c.head
	if h.size += len(f.Name) + len(f.Value) + 32; h.size > maxHeaderList {
		h.bad, h.fields = "the headers are too long", nil
		return
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
	case "connection":
		h.bad = "HTTP/2 has no header connection"
	case "content-type":
		h.contentType = f.Value
		h.fields = append(h.fields, f)
	default:
		if strings.ToLower(f.Name) != f.Name {
			h.bad = "a header's name has capitals"
		}
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
	block, err := c.headerBlock(f, n, pad)
	if err != nil {
		return err
	}
	if !c.repeats(block) {
		if err := c.decode(block); err != nil {
			return err
		}
	}
	if f.stream <= c.lastID {
		return c.trailers(f)
	}
	c.lastID = f.stream
	return c.open(f)
}

// decode reads a block of headers into head. All of it must be decoded, also for
// a stream that is refused: the table is one for the connection.
func (c *conn) decode(block []byte) error {
	c.head = head{fields: c.head.fields[:0]}
	if _, err := c.decoder.Write(block); err != nil {
		return fault(codeCompression, "headers that cannot be decoded")
	}
	if err := c.decoder.Close(); err != nil {
		return fault(codeCompression, "headers that end early")
	}
	if !slices.Equal(c.fields, c.head.fields) { // clients send the same with each call
		c.fields = slices.Clone(c.head.fields)
	}
	c.remember(block)
	return nil
}

// headerBlock collects the block; usually it is in the read buffer as it is.
func (c *conn) headerBlock(f frameHead, n, pad int) ([]byte, error) {
	if n+pad > maxHeaderList {
		return nil, fault(codeEnhanceCalm, "the headers are too long")
	}
	b, err := c.rd.next(n)
	if err != nil {
		return nil, err
	}
	if f.flags&flagEndHeaders != 0 && pad == 0 {
		return b, nil
	}
	c.block = append(c.block[:0], b...)
	if err := c.rd.skip(pad); err != nil {
		return nil, err
	}
	for flags := f.flags; flags&flagEndHeaders == 0; {
		b, err := c.rd.next(frameHeaderSize)
		if err != nil {
			return nil, err
		}
		more := parseFrameHead(b)
		if more.kind != frameContinuation || more.stream != f.stream {
			return nil, fault(codeProtocol, "expected CONTINUATION")
		}
		if more.length == 0 && more.flags&flagEndHeaders == 0 || len(c.block)+more.length > maxHeaderList {
			return nil, fault(codeEnhanceCalm, "the headers are too long")
		}
		if b, err = c.rd.next(more.length); err != nil {
			return nil, err
		}
		c.block = append(c.block, b...)
		flags = more.flags
	}
	return c.block, nil
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
	off     bool // the client's table is too small
	update  bool // the client must be told that it is empty
}

// tableNeed is the size of the two entries as HTTP/2 counts them.
const tableNeed = len("content-type") + len(grpcType) + 32 + len("grpc-status") + 1 + 32

const grpcType = "application/grpc"

// resize obeys SETTINGS_HEADER_TABLE_SIZE.
func (t *responseTable) resize(size uint32) {
	if size < uint32(tableNeed) && !t.off {
		t.off, t.update, t.entries = true, true, 0
	}
}

const (
	indexStatus200   = 8
	indexContentType = 31
	staticEntries    = 61
)

// appendHead appends the start of every answer: status and content type.
func (t *responseTable) appendHead(b []byte, status int) []byte {
	if t.update {
		t.update = false
		b = append(b, 0x20) // the table has no room from now on
	}
	if status == 200 {
		b = append(b, 0x80|indexStatus200)
	} else {
		b = append(b, 0x08) // :status by name
		b = appendText(b, strconv.Itoa(status))
	}
	switch {
	case t.off:
		return appendText(append(b, 0x0f, indexContentType-0x0f), grpcType)
	case t.entries == 0:
		t.entries = 1
		return appendText(append(b, 0x40|indexContentType), grpcType)
	}
	return append(b, 0x80|byte(staticEntries+t.entries))
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
