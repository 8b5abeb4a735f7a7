package worker

import (
	"os"
	"sync"
	"syscall"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// spareLimit is the largest write buffer worth keeping.
const spareLimit = 1 << 20

// outbox holds the frames that are on their way to the worker. Whoever has one to send
// appends it, and flushes what is there unless somebody else is already writing: then
// that one takes it along. It is part of state.
type outbox struct {
	mu  *sync.Mutex     // guards it; it is free while somebody writes
	raw syscall.RawConn // of the control channel, which never waits in the poller

	frames  []byte // waiting to be written
	enc     wire.Encoder
	spare   []byte
	writing bool   // somebody is writing
	left    []byte // what the flusher has to write first
	err     error  // of a write
	room    sync.Cond
	ended   bool          // the connection has
	kick    chan struct{} // tells the flusher that it has something to write

	tryBuf []byte // of the one that is writing
	tryN   int
	tryErr error
	try    func(uintptr) bool
}

func (o *outbox) init(mu *sync.Mutex, raw syscall.RawConn) {
	o.mu, o.raw, o.kick, o.room.L = mu, raw, make(chan struct{}, 1), mu
	o.try = func(fd uintptr) bool {
		o.tryN, o.tryErr = channel.TryWrite(fd, o.tryBuf)
		return true
	}
}

// append appends a frame.
func (o *outbox) append(kind wire.Kind, instance uint32, id uint64, body []byte) (err error) {
	o.frames, err = wire.AppendFrame(o.frames, kind, instance, id, body)
	return err
}

// flush writes what is there, unless somebody is already writing. It never waits for
// the worker to read: what the socket does not take at once is left to the flusher.
// It unlocks mu while it writes.
func (o *outbox) flush() {
	if o.writing || o.ended {
		return
	}
	o.writing = true
	for len(o.frames) > 0 && o.err == nil {
		buf := o.frames
		o.frames = o.spare[:0]
		o.spare = nil
		o.mu.Unlock()
		n, err := o.writeNow(buf)
		o.mu.Lock()
		switch {
		case err != nil:
			o.err = err // the reader sees the end of the channel
		case n < len(buf):
			o.left = buf[n:]
			select {
			case o.kick <- struct{}{}:
			default: // cannot be: the flusher has nothing else to do
			}
			return // writing stays set, on behalf of the flusher
		default:
			o.recycle(buf)
		}
	}
	o.writing = false
}

// writeNow writes what the socket takes without waiting. Its caller is the one that
// writes, and does not hold the lock.
func (o *outbox) writeNow(buf []byte) (int, error) {
	o.tryBuf = buf
	err := o.raw.Write(o.try)
	o.tryBuf = nil
	if err == nil {
		err = o.tryErr
	}
	return o.tryN, err
}

func (o *outbox) recycle(buf []byte) {
	if cap(buf) <= spareLimit && cap(buf) > cap(o.spare) {
		o.spare = buf[:0]
	}
}

// flusher writes what the socket did not take at once, until the connection is closing.
// It takes the lock itself.
func (o *outbox) flusher(control *os.File, closing <-chan struct{}) {
	for {
		select {
		case <-o.kick:
		case <-closing:
			return
		}
		o.mu.Lock()
		buf := o.left
		o.left = nil
		for len(buf) > 0 && o.err == nil && !o.ended {
			o.mu.Unlock()
			_, err := control.Write(buf)
			o.mu.Lock()
			if err != nil {
				o.err = err
			}
			o.recycle(buf)
			buf = o.frames
			o.frames = o.spare[:0]
			o.spare = nil
			o.room.Broadcast()
		}
		o.writing = false
		o.mu.Unlock()
	}
}

// awaitRoom waits while more than some bytes wait for a worker that does not read.
func (o *outbox) awaitRoom(most int) {
	for len(o.frames) > most && !o.ended {
		o.room.Wait()
	}
}

// end notes the end of the connection.
func (o *outbox) end() {
	o.ended = true
	o.room.Broadcast()
}

// clear forgets what was not sent.
func (o *outbox) clear() { o.frames, o.spare, o.left = nil, nil, nil }
