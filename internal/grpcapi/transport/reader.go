package transport

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
)

// readSize is the buffer of a connection. Large messages do not pass it.
const readSize = 64 << 10

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// reader reads a connection through a buffer, and past it what has a place of
// its own.
type reader struct {
	nc     net.Conn
	buf    *[]byte
	at, to int // what is buffered
}

func (r *reader) init(nc net.Conn) {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[]byte)
	}
	r.nc = nc
}

func (r *reader) free() {
	if r.buf != nil {
		readBuffers.Put(r.buf)
		r.buf = nil
	}
}

// next returns the next n bytes, valid until the next call; n must fit the
// buffer.
func (r *reader) next(n int) ([]byte, error) {
	b := *r.buf
	for r.to-r.at < n {
		if r.at > 0 && r.at+n > len(b) {
			r.to = copy(b, b[r.at:r.to])
			r.at = 0
		} else if r.at == r.to {
			r.at, r.to = 0, 0
		}
		k, err := r.nc.Read(b[r.to:])
		r.to += k
		if err != nil && r.to-r.at < n {
			if err == io.EOF && r.to > r.at { //nolint:errorlint // connections return it as it is
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	p := b[r.at : r.at+n]
	r.at += n
	return p, nil
}

// peek is next, for bytes that the next call gives again.
func (r *reader) peek(n int) ([]byte, error) {
	p, err := r.next(n)
	r.at -= len(p)
	return p, err
}

// full fills p.
func (r *reader) full(p []byte) error {
	k := copy(p, (*r.buf)[r.at:r.to])
	r.at += k
	if k == len(p) {
		return nil
	}
	_, err := io.ReadFull(r.nc, p[k:])
	return err
}

// skip drops n bytes.
func (r *reader) skip(n int) error {
	for n > 0 {
		k := min(n, readSize)
		if _, err := r.next(k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// maxFrame is what a client may put into a frame: with a large one it hands
// over a large message in few pieces.
const maxFrame = 1 << 20

// read takes frames until the connection ends.
func (c *intake) read() error {
	for {
		b, err := c.rd.next(frameHeaderSize)
		if err != nil {
			return err
		}
		f := parseFrameHead(b)
		// One look at the clock for what came in one read.
		if c.rd.at == frameHeaderSize {
			c.lastRead.Store(backend.Now())
		}
		if f.length > maxFrame {
			return fault(codeFrameSize, "a frame is longer than SETTINGS_MAX_FRAME_SIZE")
		}
		if !c.handshake && f.kind != frameSettings {
			return fault(codeProtocol, "expected SETTINGS as the first frame")
		}
		err = c.frame(f)
		if st := c.ready; st != nil {
			c.ready = nil
			if err == nil {
				err = c.dispatch(st, c.alone)
			} else {
				c.s.start(st) // its handler finds the call cancelled
			}
		}
		if err != nil {
			return err
		}
		if c.choked.Load() {
			c.breathe()
		}
	}
}

// frame takes one frame.
func (c *intake) frame(f frameHead) error {
	switch f.kind {
	case frameData:
		return c.data(f)
	case frameHeaders:
		return c.headers(f)
	case frameReset:
		return c.resetByClient(f)
	case frameSettings:
		return c.settings(f)
	case framePing:
		return c.pingFrame(f)
	case frameWindowUpdate:
		return c.windowUpdate(f)
	case framePushPromise, frameContinuation:
		return fault(codeProtocol, "a frame that must not come here")
	case frameGoAway:
		switch {
		case f.stream != 0:
			return fault(codeProtocol, "GOAWAY of a stream")
		case f.length < 8:
			return fault(codeFrameSize, "a frame of a wrong length")
		}
	case framePriority: // which RFC 9113 has made meaningless
		switch {
		case f.stream == 0:
			return fault(codeProtocol, "PRIORITY of no stream")
		case f.length != 5:
			return fault(codeFrameSize, "a frame of a wrong length")
		}
	default: // kinds to come
	}
	if err := c.spend(costFrame); err != nil {
		return err
	}
	return c.rd.skip(f.length)
}

// small reads the payload of a frame of a fixed size.
func (c *intake) small(f frameHead, want int) ([]byte, error) {
	if f.length != want {
		return nil, fault(codeFrameSize, "a frame of a wrong length")
	}
	return c.rd.next(want)
}

func (c *intake) resetByClient(f frameHead) error {
	if _, err := c.small(f, 4); err != nil {
		return err
	}
	if f.stream == 0 || f.stream > c.lastID {
		return fault(codeProtocol, "RST_STREAM of a stream that is not open")
	}
	c.history.end(f.stream)
	c.mu.Lock()
	st := c.streams[f.stream]
	if st != nil {
		c.endLocked(st)
	}
	err := c.spendLocked(costFrame)
	c.mu.Unlock()
	if st != nil {
		st.abort(context.Canceled)
	}
	return err
}

func (c *intake) pingFrame(f frameHead) error {
	if f.stream != 0 {
		return fault(codeProtocol, "PING of a stream")
	}
	b, err := c.small(f, 8)
	if err != nil {
		return err
	}
	data := [8]byte(b)
	if err := c.spend(costFrame); err != nil {
		return err
	}
	if f.flags&flagAck != 0 {
		if data == drainPing {
			c.settle()
		}
		return nil
	}
	if err := c.pinged(); err != nil {
		return err
	}
	return c.control(func(b []byte) []byte { return appendPing(b, flagAck, data) })
}

func (c *intake) windowUpdate(f frameHead) error {
	b, err := c.small(f, 4)
	if err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(b) & flow.Max)
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.streams[f.stream]
	switch {
	case f.stream > c.lastID:
		return fault(codeProtocol, "WINDOW_UPDATE of a stream that is not open")
	case f.stream == 0 && n == 0:
		return fault(codeProtocol, "WINDOW_UPDATE of nothing")
	case f.stream == 0:
		if !c.send.Grant(n) {
			return fault(codeFlowControl, "WINDOW_UPDATE beyond all bounds")
		}
		c.passOnLocked()
	case st == nil: // it has ended
	case n == 0:
		return c.resetLocked(st, codeProtocol)
	default:
		if !st.send.Grant(n) {
			return c.resetLocked(st, codeFlowControl)
		}
		st.wakeLocked()
	}
	return c.spendLocked(costFrame)
}

// maxSettings is more than there are.
const maxSettings = 64

func (c *intake) settings(f frameHead) error {
	if f.stream != 0 {
		return fault(codeProtocol, "SETTINGS of a stream")
	}
	if f.flags&flagAck != 0 {
		if f.length != 0 {
			return fault(codeFrameSize, "an acknowledgement with a payload")
		}
		return nil
	}
	if f.length%6 != 0 || f.length > 6*maxSettings {
		return fault(codeFrameSize, "SETTINGS of a wrong length")
	}
	b, err := c.rd.next(f.length)
	if err != nil {
		return err
	}
	if !c.handshake {
		c.handshake = true
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	c.mu.Lock()
	if err = c.spendLocked(costSettings); err == nil {
		err = c.applyLocked(b)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.control(func(b []byte) []byte { return appendFrameHead(b, 0, frameSettings, flagAck, 0) })
}

// applyLocked obeys the client's settings.
func (c *intake) applyLocked(b []byte) error {
	before := c.streamSend.Left()
	for ; len(b) > 0; b = b[6:] {
		value := binary.BigEndian.Uint32(b[2:])
		switch binary.BigEndian.Uint16(b) {
		case settingTableSize:
			c.table.Resize(value)
		case settingInitialWindow:
			if value > flow.Max {
				return fault(codeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE beyond all bounds")
			}
			c.streamSend = flow.Of(int64(value))
		case settingPush:
			if value > 1 {
				return fault(codeProtocol, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")
			}
		case settingMaxFrame:
			if value < minMaxFrame || value > maxMaxFrame {
				return fault(codeProtocol, "SETTINGS_MAX_FRAME_SIZE out of range")
			}
			c.maxFrame = int(value)
		}
	}
	change := c.streamSend.Left() - before
	if change == 0 {
		return nil
	}
	for _, st := range c.streams {
		if !st.send.Grant(change) {
			return fault(codeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE beyond all bounds")
		}
		if change > 0 && st.send.Left() > 0 {
			st.wakeLocked()
		}
	}
	return nil
}
