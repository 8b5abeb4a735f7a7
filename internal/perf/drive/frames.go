package drive

import (
	"encoding/binary"
	"strconv"
)

// frame reads one frame and acts on it.
func (c *h2) frame() error {
	if err := c.need(frameHead); err != nil {
		return err
	}
	h := c.buffered()[:frameHead]
	size := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	kind, flags := h[3], h[4]
	id := binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1)
	if size > ourFrame {
		return malformed("a frame of %d bytes", size)
	}
	c.r += frameHead
	if kind == frameData {
		return c.dataFrame(size, flags, id)
	}
	if err := c.need(size); err != nil {
		return err
	}
	payload := c.buffered()[:size]
	c.r += size
	switch kind {
	case frameHeaders, frameContinuation:
		return c.headersFrame(kind, payload, flags, id)
	case frameReset:
		if id == c.id && size == 4 {
			c.ended = true
			if c.status == "" {
				c.status, c.detail = "RST_STREAM", "the server has reset the stream, error "+strconv.Itoa(int(binary.BigEndian.Uint32(payload)))
			}
		}
	case frameSettings:
		return c.settingsFrame(payload, flags)
	case framePing:
		if flags&flagAck == 0 {
			return c.write(append(appendFrame(nil, framePing, flagAck, 0, size), payload...))
		}
	case frameGoAway:
		c.leaving = true
		if size >= 4 && binary.BigEndian.Uint32(payload)&(1<<31-1) < c.id && !c.ended {
			c.ended, c.status, c.detail = true, kindGoAway, string(payload[min(8, size):])
		}
	case frameWindow:
		if size == 4 {
			more := int64(binary.BigEndian.Uint32(payload) & (1<<31 - 1))
			switch id {
			case 0:
				c.sendConn += more
			case c.id:
				c.sendStream += more
			}
		}
	}
	return nil
}

func (c *h2) settingsFrame(payload []byte, flags byte) error {
	if flags&flagAck != 0 {
		return nil
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingTable:
			c.header.peerTable = min(c.header.peerTable, value) // once smaller it has lost our fields
		case settingWindow:
			if value > wholeWindow {
				return malformed("a window of %d bytes", value)
			}
			c.sendStream += int64(value) - c.sendInitial
			c.sendInitial = int64(value)
		case settingFrame:
			if value < smallFrame {
				return malformed("frames of at most %d bytes", value)
			}
			c.maxFrame = int(min(value, ourFrame))
		}
	}
	return c.write(appendFrame(nil, frameSettings, flagAck, 0, 0))
}

// dataFrame hands the data of our stream to sink.
func (c *h2) dataFrame(size int, flags byte, id uint32) error {
	if c.received += size; c.received > wholeWindow/2 {
		if err := c.more(0, &c.received); err != nil {
			return err
		}
	}
	padding := 0
	if flags&flagPadded != 0 {
		if size == 0 {
			return malformed("a frame without its padding")
		}
		if err := c.need(1); err != nil {
			return err
		}
		padding = int(c.buffered()[0])
		c.r++
		if size--; padding > size {
			return malformed("a frame with more padding than length")
		}
	}
	if id != c.id {
		return c.take(size, nil)
	}
	c.heard = true
	if c.onStream += size; c.onStream > wholeWindow/2 {
		if err := c.more(c.id, &c.onStream); err != nil {
			return err
		}
	}
	for left := size - padding; left > 0; {
		if c.r == c.w {
			if err := c.fill(1); err != nil {
				return err
			}
		}
		part := min(left, c.w-c.r)
		if err := c.sink(c.buf[c.r : c.r+part]); err != nil {
			return err
		}
		c.r += part
		left -= part
	}
	if flags&flagEndStream != 0 {
		c.ended = true
	}
	return c.take(padding, nil)
}

// more lets the server send as much again.
func (c *h2) more(id uint32, received *int) error {
	b := appendFrame(nil, frameWindow, 0, id, 4)
	b = binary.BigEndian.AppendUint32(b, uint32(*received))
	*received = 0
	return c.write(b)
}

func (c *h2) headersFrame(kind byte, payload []byte, flags byte, id uint32) error {
	if kind == frameHeaders {
		padding := 0
		if flags&flagPadded != 0 && len(payload) > 0 {
			padding, payload = int(payload[0]), payload[1:]
		}
		if flags&flagPriority != 0 && len(payload) >= 5 {
			payload = payload[5:]
		}
		if padding > len(payload) {
			return malformed("a frame with more padding than length")
		}
		payload = payload[:len(payload)-padding]
		c.endsAt = flags&flagEndStream != 0
		c.block = c.block[:0]
		if flags&flagEndHeaders != 0 {
			return c.fields(payload, id)
		}
	}
	if c.block = append(c.block, payload...); len(c.block) > maxHead {
		return malformed("headers of %d bytes", len(c.block))
	}
	if flags&flagEndHeaders != 0 {
		return c.fields(c.block, id)
	}
	return nil
}

// fields reads a block of headers or trailers.
func (c *h2) fields(block []byte, id uint32) error {
	m, err := c.header.read(block)
	if err != nil {
		return err
	}
	if id != c.id {
		return nil
	}
	c.heard = true
	if m.grpc != "" {
		c.status, c.detail = m.grpc, m.message
	} else if m.http != "" && m.http != "200" {
		c.status, c.detail = "HTTP "+m.http, "the server speaks HTTP/2, but not gRPC here"
	}
	c.ended = c.ended || c.endsAt
	return nil
}
