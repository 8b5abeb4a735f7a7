package drive

import (
	"encoding/binary"
	"strings"

	"github.com/nesoserve/neso/internal/perf/wire"
)

// The frames of HTTP/2 and their flags.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9

	flagAck, flagEndStream, flagEndHeaders, flagPadded, flagPriority = 1, 1, 4, 8, 32

	settingTable, settingPush, settingWindow, settingFrame = 1, 2, 4, 5

	frameHead   = 9
	grpcPrefix  = 5
	ourFrame    = 1 << 20   // how long a frame we take
	wholeWindow = 1<<31 - 1 // what may be sent to us before we say more
	firstWindow = 65535     // before settings
	smallFrame  = 16384     // which everybody takes
	lastStream  = 1<<31 - 1
)

// h2 is a connection of HTTP/2 with one stream at a time.
type h2 struct {
	stream
	heads  *Heads
	table  bool // the block with our dynamic table has been sent
	header headers

	id          uint32 // of the stream
	next        uint32
	sendConn    int64
	sendStream  int64
	sendInitial int64
	maxFrame    int
	received    int // on the connection, and on the stream, since we said more
	onStream    int
	leaving     bool // the server takes no new stream, or there is no number for one

	// Of the stream: how it ended, and what waits to be taken out of it.
	ended  bool
	status string
	detail string
	block  []byte
	endsAt bool // the block that continues ends the stream
	heard  bool // the answer to the request has begun
	sink   func(data []byte) error
}

// Heads are the headers of every request of a run, encoded.
type Heads struct{ first, rest, plain []byte }

// NewHeads encodes the headers of calls of a method.
func NewHeads(d *Dialer, host, path string, extra [][2]string, compression string) *Heads {
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", host}}
	if d.TLS != nil {
		fields[1][1] = "https"
	}
	fields = append(fields, [2]string{"content-type", "application/grpc"}, [2]string{"te", "trailers"})
	if compression != "" {
		fields = append(fields, [2]string{"grpc-encoding", compression})
	}
	for _, h := range extra {
		fields = append(fields, [2]string{strings.ToLower(h[0]), h[1]})
	}
	h := &Heads{}
	h.first, h.rest = encodeBlocks(fields, true)
	_, h.plain = encodeBlocks(fields, false)
	return h
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// begin says hello and waits for the server's settings, so that its limits hold from
// the first request on.
func (c *h2) begin() error {
	c.table, c.header, c.next, c.id, c.leaving = false, newHeaders(), 1, 0, false
	c.sendConn, c.sendInitial, c.maxFrame, c.received = firstWindow, firstWindow, smallFrame, 0
	b := append(c.out[:0], preface...)
	b = appendFrame(b, frameSettings, 0, 0, 18)
	for _, s := range [][2]uint32{{settingPush, 0}, {settingWindow, wholeWindow}, {settingFrame, ourFrame}} {
		b = binary.BigEndian.AppendUint16(b, uint16(s[0]))
		b = binary.BigEndian.AppendUint32(b, s[1])
	}
	b = appendFrame(b, frameWindow, 0, 0, 4)
	b = binary.BigEndian.AppendUint32(b, wholeWindow-firstWindow)
	c.out = b
	if err := c.write(b); err != nil {
		return err
	}
	if err := c.need(frameHead); err != nil {
		return err
	}
	if kind := c.buffered()[3]; kind != frameSettings {
		return malformed("expected HTTP/2, got %q", c.buffered()[:min(24, len(c.buffered()))])
	}
	return c.frame()
}

func appendFrame(b []byte, kind, flags byte, id uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(b, id)
}

// start begins a stream: its headers wait in out.
func (c *h2) start() {
	c.id = c.next
	c.next += 2
	c.leaving = c.leaving || c.next > lastStream
	c.ended, c.status, c.detail, c.sendStream, c.onStream = false, "", "", c.sendInitial, 0
	block := c.heads.rest
	switch {
	case c.header.peerTable < 4096:
		block = c.heads.plain
	case !c.table:
		block, c.table = c.heads.first, true
	}
	c.out = appendFrame(c.out[:0], frameHeaders, flagEndHeaders, c.id, len(block))
	c.out = append(c.out, block...)
}

// message sends a gRPC message behind what waits in out; end ends our side.
func (c *h2) message(p *wire.Prepared, r *Request, compressed []byte, end bool) error {
	size, tail := p.Size(), p.Tail
	if compressed != nil {
		size, tail = len(compressed), compressed
	}
	var flags byte
	if end {
		flags = flagEndStream
	}
	whole := size + grpcPrefix
	if whole <= min(c.maxFrame, scratch) && int64(whole) <= min(c.sendConn, c.sendStream) {
		c.out = appendFrame(c.out, frameData, flags, c.id, whole)
		c.out = appendPrefix(c.out, size, compressed != nil)
		if compressed == nil {
			c.out = p.AppendHead(c.out, r.ID, r.Start, r.End)
		}
		c.out = append(c.out, tail...)
		c.sendConn -= int64(whole)
		c.sendStream -= int64(whole)
		return nil
	}
	// Prefix and head first, then the tail, each as frames and windows allow.
	first := appendPrefix(nil, size, compressed != nil)
	if compressed == nil {
		first = p.AppendHead(first, r.ID, r.Start, r.End)
	}
	if err := c.data(first, 0, true); err != nil {
		return err
	}
	return c.data(tail, flags, false)
}

func appendPrefix(b []byte, size int, compressed bool) []byte {
	var flag byte
	if compressed {
		flag = 1
	}
	return binary.BigEndian.AppendUint32(append(b, flag), uint32(size))
}

// data writes b as frames; where a window is full it reads until there is room, or
// the stream has ended. With more, what follows may be written together with it.
func (c *h2) data(b []byte, flags byte, more bool) error {
	for {
		for min(c.sendConn, c.sendStream) <= 0 && len(b) > 0 {
			if len(c.out) > 0 {
				if err := c.flush(); err != nil {
					return err
				}
			}
			if err := c.frame(); err != nil {
				return err
			}
			if c.ended {
				return nil
			}
		}
		n := int(min(int64(len(b)), int64(c.maxFrame), c.sendConn, c.sendStream))
		last := n == len(b)
		var f byte
		if last {
			f = flags
		}
		c.out = appendFrame(c.out, frameData, f, c.id, n)
		c.out = append(c.out, b[:n]...)
		c.sendConn -= int64(n)
		c.sendStream -= int64(n)
		b = b[n:]
		if last && more && len(c.out) < 4*scratch {
			return nil // the rest of the message goes with it
		}
		if last || len(c.out) >= 16*scratch {
			if err := c.flush(); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

func (c *h2) flush() error {
	err := c.write(c.out)
	c.out = c.out[:0]
	return err
}
