package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// Ended is the status of a call whose context has ended. That its time is up the
// client knows too: whichever is first, the words are those of gRPC's C library,
// which the official clients are made with.
func Ended(err error) *status.Status {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.New(codes.DeadlineExceeded, "Deadline Exceeded")
	}
	return status.FromContextError(err)
}

// callContext is the context of a call. Most calls are over before anybody asks
// for a channel or a map of metadata, so they are made when asked for.
type callContext struct {
	st       *stream
	deadline time.Time // zero for none

	mu    sync.Mutex
	done  chan struct{}
	err   error
	after map[*func()]struct{} // to be called at the end
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.err != nil {
			return ended
		}
		c.done = make(chan struct{})
	}
	return c.done
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc is what package context looks for in a context that is not its own:
// with it children need no goroutine.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.st.c.s.running.Go(f)
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = map[*func()]struct{}{}
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.after[&f]
		delete(c.after, &f)
		return ok
	}
}

// cancel ends the context, once.
func (c *callContext) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for f := range after {
		c.st.c.s.running.Go(*f)
	}
}

// probe learns the key under which a package keeps a value in a context: it is
// the package's own, and calls need no context around a context then.
type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

var metadataKey, peerKey = func() (any, any) {
	p := &probe{Context: context.Background()}
	metadata.FromIncomingContext(p)
	m := p.key
	peer.FromContext(p)
	return m, p.key
}()

type shareKey struct{}

// ShareOf returns what the connection of a call holds of the ledger, nil for the
// context of no call.
func ShareOf(ctx context.Context) *ledger.Share {
	s, _ := ctx.Value(shareKey{}).(*ledger.Share)
	return s
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	switch key {
	case metadataKey:
		return c.st.metadata()
	case peerKey:
		return &c.st.c.peer
	case shareKey{}:
		return &c.st.c.share
	}
	return nil
}
