package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
)

// Retry says how often and when a request is sent again that the server has not
// taken up. That is certain where there was no connection to send it over, and taken
// as said where the server answers that it is unavailable (HTTP status 503, gRPC code
// UNAVAILABLE), or over a quota with the time to come back (429, RESOURCE_EXHAUSTED).
// A connection that breaks later is no reason, since the request may have been
// executed, nor is an answer to a request of a sequence.
type Retry struct {
	// Attempts is how often a request is sent at most; 0 and 1 stand for once.
	Attempts int
	// Wait is the longest pause before the second attempt, default 100 ms; each
	// further one may take twice as long. Half of it is chance, so that clients do not
	// come back at once.
	Wait time.Duration
	// MaxWait bounds a pause, default 5 s. A server that asks for a longer one is not
	// asked again, nor is one when the context's deadline would be over.
	MaxWait time.Duration
}

const (
	defaultWait    = 100 * time.Millisecond
	defaultMaxWait = 5 * time.Second
)

// kind is what may be sent again.
type kind int

const (
	unsentOnly kind = iota // what was not sent at all
	control                // also what was refused with a time to come back
	stateless              // also what was refused
)

// kindOf is that of a request with such parameters. Those of a sequence are counted by
// the model: each may come once.
func kindOf(parameters map[string]any) kind {
	if parameters[paramSequenceID] != nil {
		return unsentOnly
	}
	return stateless
}

// attempt calls do until it succeeds or there is no sense in going on.
func (r *Retry) attempt(ctx context.Context, k kind, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || n >= r.Attempts || ctx.Err() != nil {
			return err
		}
		after, again := mayRetry(err, k)
		if !again {
			return err
		}
		pause := r.pause(n)
		if after > r.maxWait() {
			return err
		}
		pause = max(pause, after)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

// pause returns how long to wait after the nth attempt.
func (r *Retry) pause(n int) time.Duration {
	wait := r.Wait
	if wait <= 0 {
		wait = defaultWait
	}
	for range n - 1 {
		if wait >= r.maxWait() {
			break
		}
		wait *= 2
	}
	wait = min(wait, r.maxWait())
	return wait/2 + rand.N(wait/2+1)
}

func (r *Retry) maxWait() time.Duration {
	if r.MaxWait > 0 {
		return r.MaxWait
	}
	return defaultMaxWait
}

// mayRetry reports whether a request that failed may be sent again, and what the
// server said when.
func mayRetry(err error, k kind) (after time.Duration, ok bool) {
	if unsent(err) {
		return 0, true
	}
	answer, is := errors.AsType[*Error](err)
	if !is {
		return 0, false
	}
	refused := answer.Status == http.StatusServiceUnavailable ||
		answer.Code == codes.ResourceExhausted && answer.RetryAfter > 0 && answer.Status != http.StatusRequestEntityTooLarge
	switch k {
	case stateless:
		return answer.RetryAfter, refused
	case control:
		return answer.RetryAfter, refused && answer.RetryAfter > 0
	case unsentOnly:
	}
	return 0, false
}

// unsent reports whether there was no connection to send a request over.
func unsent(err error) bool {
	if broken, ok := errors.AsType[*connectionError](err); ok {
		return broken.unsent
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// connectionError is a call over gRPC that ended without an answer of the server.
type connectionError struct {
	err    error
	unsent bool
}

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }
