package transport

import (
	"encoding/binary"
	"math/bits"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// incoming is a message on its way in. Only the reader touches it.
type incoming struct {
	prefix [prefixSize]byte
	have   int // of prefix
	begun  bool
	parts  mem.BufferSlice
	rest   []byte // what is empty of the present part
	next   int    // the part after it
	size   int
	left   int          // bytes that have not come yet
	held   int64        // on the ledger
	on     ledger.Page  // where
	hold   *ledger.Hold // in its place, of one that is large or comes in pieces
}

// advance passes over n bytes of the present part that have come.
func (in *incoming) advance(n int) {
	in.left -= n
	in.rest = in.rest[n:]
	for len(in.rest) == 0 && in.next < len(in.parts) {
		in.rest = in.parts[in.next].ReadOnlyData()
		in.next++
	}
}

// message is one that has come whole.
type message struct {
	parts      mem.BufferSlice
	compressed bool
	size       int
	held       int64 // what is counted for it, or 0 for a small one, see smallLocked
	on         ledger.Page
}

// largeMessage is from which size on ReceiveInto is asked.
const largeMessage = 64 << 10

// buffers are finer than the library's, whose class above 32 KiB is 1 MiB: what
// is held must not be many times what has come.
var buffers = mem.NewTieredBufferPool(4<<10, 8<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

// data takes a DATA frame.
func (c *intake) data(f frameHead) error {
	n, pad := f.length, 0
	if f.flags&flagPadded != 0 {
		b, err := c.rd.next(1)
		if err != nil {
			return err
		}
		pad = int(b[0])
		n--
	}
	if n -= pad; n < 0 || f.stream == 0 {
		return fault(codeProtocol, "DATA that cannot be")
	}
	if n == 0 && f.flags&flagEndStream == 0 {
		if err := c.spend(costFrame); err != nil {
			return err
		}
	}
	if !c.window.Spend(int64(f.length)) {
		return fault(codeFlowControl, "DATA beyond the connection's window")
	}
	st, err := c.charge(f, n)
	if err != nil {
		return err
	}
	if st == nil {
		if err := c.rd.skip(n + pad); err != nil {
			return err
		}
	} else {
		if st.status != 0 {
			err = c.rd.skip(n)
		} else {
			err = c.receive(st, n)
		}
		if err == nil {
			err = c.rd.skip(pad)
		}
		if err != nil {
			c.filled(st, 0, 0)
			return err
		}
		if f.flags&flagEndStream != 0 {
			c.history.end(f.stream)
			if st.in.have > 0 || st.in.begun {
				c.refuse(st, status.New(codes.Internal, "a message ends early"))
			}
			c.halfClosed(st)
		} else {
			c.filled(st, n, f.length-n)
		}
	}
	grant := c.window.Used(int64(f.length), int64(c.s.o.ConnWindow)/4)
	if grant == 0 {
		return nil
	}
	return c.control(func(b []byte) []byte { return appendWindowUpdate(b, 0, grant) })
}

// charge takes a frame with n bytes of messages off the window of its stream. It
// returns nil where they are not wanted.
func (c *intake) charge(f frameHead, n int) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.streams[f.stream]
	if st == nil {
		return nil, c.history.late(f.stream)
	}
	if st.clientDone {
		return nil, c.resetLocked(st, codeStreamClosed)
	}
	if !st.window.Spend(int64(f.length)) {
		return nil, c.resetLocked(st, codeFlowControl)
	}
	if st.left >= 0 {
		if st.left -= int64(n); st.left < 0 || f.flags&flagEndStream != 0 && st.left > 0 {
			return nil, c.resetLocked(st, codeProtocol)
		}
	}
	if st.deaf {
		return nil, nil
	}
	st.filling = true
	if f.length > c.rd.to-c.rd.at {
		c.clockLocked(st) // the rest may never come
	}
	return st, nil
}

// filled ends what charge began, for a frame of so many bytes of messages and of
// padding.
func (c *intake) filled(st *stream, n, padding int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case st.status != 0: // nobody takes it
		st.giveBackLocked(int64(n + padding))
	case padding > 0:
		st.giveBackPaddingLocked(padding)
	}
	c.hasteLocked(st, n)
	st.filledLocked()
}

func (st *stream) filledLocked() {
	if st.filling = false; st.deaf || st.c.closed {
		st.letGoLocked()
	}
}

// letGoLocked gives back what a stream that has ended holds of a message that
// has not come whole, and what is counted for its messages. The reader must not
// be at it.
func (st *stream) letGoLocked() {
	st.in.parts.Free()
	st.in.parts, st.in.rest = nil, nil
	st.c.s.o.Ledger.GiveWhole(st.in.on, st.c.asker(), st.in.held)
	if st.in.hold != nil {
		st.in.hold.Close()
	}
	st.in.held, st.in.hold, st.due = 0, nil, time.Time{}
	st.arrivedLocked()
}

// arrivedLocked ends what is counted for memory that was made before its message
// had come.
func (st *stream) arrivedLocked() {
	st.c.ahead -= st.ahead
	st.c.s.ahead.Add(-st.ahead)
	st.ahead = 0
}

// receive reads n bytes of messages.
func (c *intake) receive(st *stream, n int) error {
	in := &st.in
	for n > 0 {
		if !in.begun {
			k := min(prefixSize-in.have, n)
			if err := c.rd.full(in.prefix[in.have : in.have+k]); err != nil {
				return err
			}
			n -= k
			if in.have += k; in.have < prefixSize {
				return nil
			}
			if ok, err := c.expect(st, n); err != nil {
				return err
			} else if !ok {
				return c.rd.skip(n)
			}
			if !in.begun {
				continue // it is empty, and has arrived
			}
		}
		if len(in.rest) == 0 && !c.piece(st) {
			return c.rd.skip(n)
		}
		k := min(len(in.rest), n)
		if err := c.rd.full(in.rest[:k]); err != nil {
			return err
		}
		n -= k
		if in.hold != nil {
			in.hold.Moved(int64(k))
		}
		if in.advance(k); in.left == 0 {
			c.arrived(st)
		}
	}
	return nil
}

// expect makes room for the message whose prefix has come; n bytes of it are in
// the present frame at most. It reports false for one that is refused.
func (c *intake) expect(st *stream, n int) (bool, error) {
	in := &st.in
	size := int64(binary.BigEndian.Uint32(in.prefix[1:]))
	if size > int64(c.s.o.MaxMessage) {
		c.refuse(st, status.Newf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, c.s.o.MaxMessage))
		return false, nil
	}
	in.begun, in.size, in.left = true, int(size), int(size)
	c.mu.Lock()
	at := size <= min(int64(n), largeMessage) || c.aheadLocked(st, size)
	grant := st.window.Extend(size - int64(n))
	c.mu.Unlock()
	if grant > 0 {
		if err := c.control(func(b []byte) []byte { return appendWindowUpdate(b, st.id, grant) }); err != nil {
			return false, err
		}
	}
	if !at || size > largeMessage {
		in.hold = new(ledger.Hold)
		in.hold.Open(c.s.o.Ledger, ledger.In, &c.share, func() { c.s.running.Go(func() { c.cut(st) }) })
		if !in.compressed() {
			in.hold.Whole(takes(size))
		}
	}
	if !at {
		return true, nil // it gets its memory as it comes
	}
	if size > smallBuffer && !c.hold(st, takes(size)) {
		return false, nil
	}
	if err := c.room(st, n); err != nil {
		return false, err
	}
	if in.advance(0); size == 0 {
		c.arrived(st)
	}
	return true, nil
}

// aheadLocked reports whether a message may have all of its memory before it has
// come, and so in one piece: as much as a client may send unasked on its
// connection, and a part of what all connections may hold.
func (c *intake) aheadLocked(st *stream, size int64) bool {
	if c.ahead+size > int64(c.s.o.ConnWindow) {
		return false
	}
	if c.s.ahead.Load()+size > c.s.o.Ledger.Limit(ledger.In)/4 {
		return false
	}
	st.ahead = size
	c.ahead += size
	c.s.ahead.Add(size)
	return true
}

// takes is what memory for so many bytes takes of buffers.
func takes(size int64) int64 {
	if size > 1<<20 {
		return size
	}
	return max(4<<10, int64(1)<<bits.Len64(uint64(size-1)))
}

// Pieces of a message that gets its memory as it comes are as large as what has
// come, within these bounds.
const (
	minPiece = 4 << 10
	maxPiece = 1 << 20
)

// hold counts n bytes of the message that is coming, or refuses the call.
func (c *intake) hold(st *stream, n int64) bool {
	in := &st.in
	switch {
	case in.hold != nil:
		if in.hold.Take(n) {
			return true
		}
		c.refuse(st, status.New(codes.ResourceExhausted, in.hold.Refusal(n).Message))
		return false
	case in.compressed(): // what becomes of it is not known
		if c.s.o.Ledger.Take(ledger.In, n) {
			in.held = n
			return true
		}
	default:
		if on, _, ok := c.s.o.Ledger.TakeWhole(ledger.In, c.asker(), n); ok {
			in.held, in.on = n, on
			return true
		}
	}
	c.refuse(st, c.s.exhausted(ledger.In, n))
	return false
}

// asker is for whom messages are counted: what a key may send is bounded where
// requests are admitted.
func (c *conn) asker() ledger.Asker { return ledger.Asker{Conn: &c.share} }

// compressed reports what the prefix says.
func (in *incoming) compressed() bool { return in.prefix[0]&1 != 0 }

// cut ends a call whose message has stood still while others needed its room.
func (c *conn) cut(st *stream) {
	c.mu.Lock()
	stuck := st.filling // in the middle of a frame: no other call gets anything either
	c.mu.Unlock()
	if stuck {
		c.close()
		return
	}
	c.refuse(st, status.New(codes.ResourceExhausted, "the message has stood still while the server needed its room"))
}

// piece makes memory for the next bytes of a message. It reports false for a
// call that is refused.
func (c *intake) piece(st *stream) bool {
	in := &st.in
	n := min(in.left, maxPiece, max(minPiece, in.size-in.left))
	if !c.hold(st, takes(int64(n))) {
		return false
	}
	p := buffers.Get(n)
	in.parts = append(in.parts, mem.NewBuffer(p, buffers))
	in.rest, in.next = *p, len(in.parts)
	return true
}

// smallBuffer is up to which size memory is left to the collector.
const smallBuffer = 1 << 10

// ReceiveHead is how much Options.ReceiveInto sees of a message, in bytes.
const ReceiveHead = 1 << 10

// room makes the memory for the message that begins, of which n bytes are in the
// present frame at most.
func (c *intake) room(st *stream, n int) error {
	in := &st.in
	if in.size <= smallBuffer {
		// The library does not count references of smaller ones.
		b := make([]byte, in.size)
		if st.method.streams || st.whole[0] != nil {
			in.parts = mem.BufferSlice{mem.SliceBuffer(b)}
			return nil
		}
		st.small = b
		st.whole[0] = &st.small
		in.parts = st.whole[:]
		return nil
	}
	if in.size >= largeMessage && c.s.o.ReceiveInto != nil && !in.compressed() {
		head, err := c.rd.peek(min(n, ReceiveHead))
		if err != nil {
			return err
		}
		if in.parts = c.s.o.ReceiveInto(st.method.name, head, in.size); in.parts != nil {
			return nil
		}
	}
	p := buffers.Get(in.size)
	in.parts = mem.BufferSlice{mem.NewBuffer(p, buffers)}
	return nil
}

// arrived hands a whole message to the stream.
func (c *intake) arrived(st *stream) {
	in := &st.in
	m := message{parts: in.parts, compressed: in.compressed(), size: in.size, held: in.held, on: in.on}
	if in.hold != nil {
		m.held, m.on = in.hold.Keep(), in.hold.Page()
	}
	c.mu.Lock()
	*in = incoming{}
	st.due = time.Time{}
	if st.ahead > 0 {
		st.arrivedLocked()
	}
	room := m.held > 0 || c.smallLocked(int64(m.size)+messageCost)
	switch {
	case st.deaf:
		st.dropLocked(m)
	case !room:
		c.mu.Unlock()
		c.refuse(st, c.s.exhausted(ledger.In, int64(m.size)))
		c.mu.Lock()
		st.dropLocked(m)
	case !st.method.streams && st.inbox.n > 0:
		c.mu.Unlock()
		c.refuse(st, status.New(codes.Internal, "a unary call with more than one message"))
		c.mu.Lock()
		st.dropLocked(m)
	default:
		st.inbox.push(m)
	}
	c.mu.Unlock()
	st.signal()
}

// messageCost is what a message holds besides its bytes, about.
const messageCost = 160

// smallLocked counts n bytes more or less of small messages that wait for their
// handlers, in steps: most calls have one, for a moment. It reports whether there
// is room.
func (c *conn) smallLocked(n int64) bool {
	const step = 64 << 10
	c.smallHeld += n
	for c.smallHeld > c.smallIn+step/2 {
		if !c.s.o.Ledger.Take(ledger.In, step) {
			return false
		}
		c.smallIn += step
	}
	for c.smallIn > 0 && c.smallHeld <= c.smallIn-step {
		c.s.o.Ledger.Give(ledger.In, step)
		c.smallIn -= step
	}
	return true
}

// halfClosed says that the client sends nothing more on a stream.
func (c *intake) halfClosed(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halfClosedLocked(st)
}

func (c *intake) halfClosedLocked(st *stream) {
	st.clientDone = true
	st.filledLocked()
	begin := !st.method.streams && !st.begun && !st.deaf
	if begin {
		st.begun = true
		c.handlers++
		c.ready, c.alone = st, c.handlers == 1 && len(c.streams) == 1
		return
	}
	st.signal()
}
