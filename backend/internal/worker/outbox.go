package worker

import (
	"os"
	"runtime"
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
	waits   bool   // somebody is about to write, see flushBatch
	batches int    // of frames
	recent  uint32 // how many batches the last four writes of any took along, a byte each
	asked   bool   // the worker polls for the next frame before it sleeps
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
		o.note()
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

// note counts the batches of a write.
func (o *outbox) note() {
	if o.batches > 0 {
		o.recent = o.recent<<8 | uint32(min(o.batches, 255))
		o.batches = 0
	}
}

// mostBatched is the most batches of a batcher that an instance has at a time. An
// instance with more gets its requests one by one, as they come. mostAsked is the most
// with which a worker that polls is still awake.
const mostBatched, mostAsked = 2, 4

// flushBatch is flush for a batch that was just appended. has is how many batches the
// worker's instance has with it; only says that the worker has no other instance. Clients
// that are answered together come back together: where the worker has several, or one of
// the last writes took several along, the goroutines that are ready to run send theirs
// first, and one write takes all. For that the worker wakes once, and answers all at once.
// Otherwise each batch would be a write, and a worker that is quicker than the server would
// go to sleep after each: half as much CPU again a request with eight clients of a small
// library. A batch waits here for what is ready to run at that moment, never for what may
// become so.
//
// A worker that asks for what comes, and has one instance, sleeps less often still where
// it gets the first ones at once: while it runs them the server takes up the next ones, and
// the worker finds those when it asks. Waiting would have the two take turns.
func (o *outbox) flushBatch(has int, only bool) {
	o.batches++
	switch {
	case only && o.asked && has <= mostAsked:
	case has <= mostBatched && o.recent&^0x0101_0101 == 0: // a lone client's
	case o.waits:
		return // that one takes it along
	case o.writing || o.ended:
	default:
		o.waits = true
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
		o.waits = false
	}
	o.flush()
}

// flushNow is flushBatch for a caller that cannot let other goroutines run first: a
// program's thread that has called the server would have to hand its processor over to
// another thread.
func (o *outbox) flushNow() {
	o.batches++
	o.flush()
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
			o.note()
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
