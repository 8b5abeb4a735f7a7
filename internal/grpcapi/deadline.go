package grpcapi

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// transportTimer is what the transport's timers are.
type transportTimer interface{ Stop() bool }

// timeAfterFunc is the transport's source of timers, a variable for its own
// tests. A call with a deadline has one that resets the stream the moment the
// deadline passes on the server's clock, which is about when it passes on the
// client's. Where the server is first, clients built on the C core report
// CANCELLED (that is what the reset says) and not DEADLINE_EXCEEDED.
//
//go:linkname timeAfterFunc google.golang.org/grpc/internal.TimeAfterFunc
var timeAfterFunc func(time.Duration, func()) transportTimer

// deadlineGrace is how much later the transport resets the stream. The call's
// context still ends on time: what is queued leaves the queue and is answered
// with DEADLINE_EXCEEDED.
const deadlineGrace = time.Second

// delayDeadlines makes the transport of this process wait deadlineGrace.
var delayDeadlines = sync.OnceFunc(func() {
	timeAfterFunc = func(d time.Duration, f func()) transportTimer { return time.AfterFunc(d+deadlineGrace, f) }
})
