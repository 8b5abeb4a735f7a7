package channel

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// The next frame of a chain of calls comes within some tens of microseconds. Waiting for
// it in Go's poller puts the thread to sleep, and perhaps its core. An interrupt and
// several system calls wake both, which takes as long as the step that is waited for. So
// the reader asks the socket again and again. In between it leaves the core to others,
// above all to the worker: the kernel likes to wake a process on the core of whoever
// woke it.

const (
	// pollLimit is how long a reader asks for one frame.
	pollLimit = 100 * time.Microsecond
	// pollWindow is how long readers may ask before one of them waits in Go's poller
	// again. A processor that always has a goroutine to run never looks at the
	// network, where there may be requests for others.
	pollWindow = 500 * time.Microsecond
	// maxMisses bounds the cost of polling in vain: after that many misses in a row
	// one in 1<<maxMisses frames is polled for.
	maxMisses = 6
	// maxRun bounds how many frames in a row come without Go's poller, which alone
	// knows of the deadline that tells a reader of its tasks.
	maxRun = 64
)

// polling decides which frames of a channel are asked for. It belongs to whoever
// reads.
type polling struct {
	odds
	soon bool // the next frame probably comes soon
	run  int  // so many in a row were asked for, and came
}

// odds decide whether to poll for the next frame: the more polls in a row were in vain,
// the rarer they get.
type odds struct {
	skip   int // how many of the next frames are waited for without polling
	misses int // polls in vain, in a row
}

// fair reports whether to poll for the next frame.
func (o *odds) fair() bool {
	if o.skip > 0 {
		o.skip--
		return false
	}
	return true
}

// note takes the outcome of a poll. After most misses in a row polls get no rarer.
func (o *odds) note(hit bool, most int) {
	if hit {
		o.misses = 0
		return
	}
	o.misses = min(o.misses+1, most)
	o.skip = 1<<o.misses - 1
}

// begin reports whether to ask for the next frame; idle is how long ago a reader
// waited in Go's poller.
func (p *polling) begin(idle time.Duration) bool {
	soon := p.soon
	p.soon = false
	switch {
	case !soon:
		return false
	case !p.fair():
		p.run = 0
		return false
	case idle > pollWindow || p.run >= maxRun:
		p.run = 0
		return false
	}
	p.run++
	return true
}

// end notes whether the frame came in time.
func (p *polling) end(inTime bool) {
	p.note(inTime, maxMisses)
	if !inTime {
		p.run = 0
	}
}

// parked is when a reader last waited in Go's poller, since started.
var (
	started = time.Now()
	parked  atomic.Int64
)

// Expect says that what the next Read returns probably comes soon.
func (d *Reader) Expect() { d.polling.soon = true }

// polled reports whether it has received anything, the end or an error without
// waiting in Go's poller.
func (d *Reader) polled() bool {
	if !d.polling.soon || !d.polling.begin(time.Since(started)-time.Duration(parked.Load())) {
		return false
	}
	d.came = false
	begin := time.Now()
	if err := d.raw.Control(d.poll); err != nil {
		return false // Read says the same
	}
	// A frame that came later was delayed by others who had the core. They get more of
	// it from a thread that yields than from one that sleeps.
	d.polling.end(d.came && time.Since(begin) <= pollLimit)
	return d.came
}

func (d *Reader) pollSocket(fd uintptr) {
	for begin := time.Now(); ; {
		if d.receive(fd) {
			d.came = true
			return
		}
		if time.Since(begin) > pollLimit {
			return
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		runtime.Gosched() // other goroutines wait for this processor
	}
}

// receiveOrPark is receive for Go's poller, which waits when it returns false.
func (d *Reader) receiveOrPark(fd uintptr) bool {
	if d.receive(fd) {
		return true
	}
	parked.Store(int64(time.Since(started)))
	return false
}
