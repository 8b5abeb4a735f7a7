package channel

import (
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/rawsocket"
)

// A worker that reads on the thread that runs its model has no use for Go's poller: that
// would have another thread wait, and hand each frame over, with two or three wake-ups
// for each. Nor may a short wait be an ordinary system call: the monitor of Go's
// scheduler takes the processor away from a thread that is in one, which costs both of
// them a wake-up again. So the thread waits a while without telling the scheduler, and
// only when nothing comes does it wait as others do.

// Whoever writes to a thread that sleeps in the kernel pays for waking it, and its core
// may have to wake as well. A library that is quicker than the server would sleep
// before nearly every request of a few clients. So the thread that runs the library
// polls for askLimit before it sleeps, and yields its core between two polls. odds
// bounds what that costs where nothing comes.
const (
	askLimit = 60 * time.Microsecond
	// askMisses is maxMisses for this polling. A thread that sleeps slows the others down,
	// so that its next poll is in vain, too: it has to find out soon that polling pays again.
	askMisses = 4
)

// SoonLimit is how long a Read for which something is expected soon keeps its processor
// while it waits. The collector and others that need the thread interrupt it by a signal.
const SoonLimit = time.Millisecond

// Source reads a socket by system calls that wait on the caller's thread. One goroutine
// at a time may read.
type Source struct {
	// Both are closed with the Source alone, when nobody knows it any more: their numbers
	// are used without asking them.
	file, event *os.File
	fd          uintptr
	wake        int // of event, an eventfd
	asked       atomic.Bool
	soon        bool
	asks        bool
	odds        odds
	polls       [2]unix.PollFd
}

// NewSource returns a source of the socket of f, which it takes over.
func NewSource(f *os.File) (*Source, error) {
	f, err := Unpolled(f)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // one that blocks, which keeps it from Go's poller; nothing ever fills it
	if err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	s := &Source{file: f, event: os.NewFile(uintptr(wake), "wake"), fd: f.Fd(), wake: wake}
	s.polls = [2]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	return s, nil
}

// Expect says whether the next frame probably comes soon, and whether Read is to poll
// for it before it sleeps.
func (s *Source) Expect(soon, ask bool) { s.soon, s.asks = soon, ask }

// Interrupt has the Read that waits, or else the next one that would wait, return
// ErrInterrupted.
func (s *Source) Interrupt() {
	s.asked.Store(true)
	_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	runtime.KeepAlive(s)
}

// Read waits for bytes, the end or Interrupt.
func (s *Source) Read(b []byte) (int, error) {
	for asks := s.asks; ; {
		n, errno := rawsocket.Receive(s.fd, b)
		if asks && errno == syscall.EAGAIN && s.odds.fair() {
			n, errno = s.ask(b)
		}
		switch {
		case errno != 0 && errno != syscall.EAGAIN:
			return 0, os.NewSyscallError("recvfrom", errno)
		case errno == 0 && n == 0:
			return 0, io.EOF
		case errno == 0:
			return n, nil
		}
		if s.asked.Swap(false) {
			return 0, ErrInterrupted
		}
		s.wait()
		asks = false // what has woken it is there
	}
}

// ask polls: it calls Receive until something comes, Interrupt is called, or askLimit
// is over.
func (s *Source) ask(b []byte) (n int, errno syscall.Errno) {
	for begin := time.Now(); ; {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		n, errno = rawsocket.Receive(s.fd, b)
		switch {
		case errno != syscall.EAGAIN:
			s.odds.note(true, askMisses) // however late: then others had the core
			return n, errno
		case s.asked.Load():
			return n, errno
		case time.Since(begin) > askLimit:
			s.odds.note(false, askMisses)
			return n, errno
		}
	}
}

// wait returns when there may be something to read, or by mistake.
func (s *Source) wait() {
	s.polls[1].Revents = 0
	s.poll()
	if s.polls[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(s.wake, count[:])
	}
}

func (s *Source) poll() {
	at, n := uintptr(unsafe.Pointer(&s.polls[0])), uintptr(len(s.polls))
	if s.soon {
		limit := unix.NsecToTimespec(int64(SoonLimit))
		ready, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, at, n, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno != 0 || ready > 0 {
			return // a signal lets the scheduler have the thread where this function is called
		}
	}
	_, _, _ = syscall.Syscall6(unix.SYS_PPOLL, at, n, 0, 0, 0, 0)
}

// Sink writes to a socket by system calls that Go's scheduler is not told of, as long as
// they do not wait. One goroutine at a time may write. The file may be closed at any time,
// as a process does that runs on when its server is gone: a write after that fails, and
// does not go to whoever has got the descriptor's number since.
type Sink struct {
	file *os.File
	raw  syscall.RawConn
	try  func(fd uintptr) // made once

	buf []byte
	n   int
	err error
}

// NewSink returns a sink of the socket of f, which it takes over, and the socket as a file
// that the poller does not watch.
func NewSink(f *os.File) (*Sink, *os.File, error) {
	f, err := Unpolled(f)
	if err != nil {
		return nil, nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	s := &Sink{file: f, raw: raw}
	s.try = func(fd uintptr) { s.n, s.err = TryWrite(fd, s.buf) }
	return s, f, nil
}

// Write writes all of b; its error is os.ErrClosed where the file is closed.
func (s *Sink) Write(b []byte) (int, error) {
	s.buf, s.n, s.err = b, 0, nil
	failed := s.raw.Control(s.try)
	s.buf = nil
	switch {
	case failed != nil:
		return 0, os.ErrClosed // all that Control can say
	case s.err != nil || s.n == len(b):
		return s.n, s.err
	}
	rest, err := s.file.Write(b[s.n:])
	return s.n + rest, err
}
