package transport

import (
	"slices"

	"golang.org/x/net/http2/hpack"
)

// MaxHeaderList bounds the headers of a call, in bytes as HTTP/2 counts them. A
// call with more is refused; one with a block of more than maxBlock bytes ends
// the connection, since all of a block has to be decoded.
const (
	MaxHeaderList = 64 << 10
	maxBlock      = 1 << 20
	blockPiece    = 32 << 10
)

// field takes one header.
func (c *intake) field(f hpack.HeaderField) { c.head.Take(f, MaxHeaderList) }

// headers takes a HEADERS frame and those that continue it.
func (c *intake) headers(f frameHead) error {
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
	if c.head.Complete(); c.head.Malformed != "" {
		return c.resetUnknown(f.stream, codeProtocol)
	}
	return c.open(f)
}

// decode reads a block of headers into head. All of it must be decoded, also for
// a stream that is refused: the table is one for the connection.
func (c *intake) decode(block []byte) error {
	c.head.Begin()
	if _, err := c.decoder.Write(block); err != nil {
		return fault(codeCompression, "headers that cannot be decoded")
	}
	if err := c.decoded(); err != nil {
		return err
	}
	c.remember(block)
	return nil
}

func (c *intake) decoded() error {
	if err := c.decoder.Close(); err != nil {
		return fault(codeCompression, "headers that end early")
	}
	if !slices.Equal(c.fields, c.head.Fields) { // clients send the same with each call
		c.fields = slices.Clone(c.head.Fields)
	}
	return nil
}

// block reads a block of headers into head; usually it is in one frame, and in
// the read buffer as it is. What is larger is decoded as it comes.
func (c *intake) block(f frameHead, n, pad int) error {
	if f.flags&flagEndHeaders != 0 && n <= MaxHeaderList {
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
	c.head.Begin()
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

// appendHeaders frames a header block, in several frames where one does not
// hold it. block lies behind place in b, with room for the frame's head.
func appendHeaders(b []byte, start int, stream uint32, endStream bool, maxFrame int) []byte {
	flags := byte(flagEndHeaders)
	if endStream {
		flags |= flagEndStream
	}
	n := len(b) - start - frameHeaderSize
	if n <= maxFrame {
		appendFrameHead(b[:start], n, frameHeaders, flags, stream)
		return b
	}
	block := append([]byte(nil), b[start+frameHeaderSize:]...)
	b = appendFrameHead(b[:start], maxFrame, frameHeaders, flags&^flagEndHeaders, stream)
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
