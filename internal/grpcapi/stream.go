package grpcapi

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve/protowire"
	"github.com/nesoserve/neso/internal/ledger"
)

const (
	// maxInflight bounds the requests of one stream that have been read and not
	// yet answered: a client that sends and never reads is stopped by the
	// transport's windows.
	maxInflight = 1024
	// maxWaiting bounds the responses of decoupled models that wait for the
	// client. A model that is ahead of its client waits in Respond.
	maxWaiting = 64
	// errorMode is the metadata by which a client asks for errors as status.
	errorMode = "triton_grpc_error"
)

// stream is one ModelStreamInfer. The reader goroutine turns messages into
// requests, the models' goroutines deliver responses into queue, and the
// handler's goroutine, the writer, sends them.
type stream struct {
	s      *Server
	grpc   transport.Stream
	ctx    context.Context // of all requests; ends with the handler
	caller *auth.Caller    // used by the reader only
	by     ledger.Asker    // for whom answers are counted
	cancel context.CancelFunc
	// errorEnds says that the first error of a model ends the stream.
	errorEnds bool

	inflight chan struct{} // one for each request in flight
	room     chan struct{} // one for each waiting response of a decoupled model
	wake     chan struct{} // the writer has something to do; one place is enough
	queues   modelQueues   // of the reader

	mu sync.Mutex
	// queue holds the responses in the order in which they will leave.
	queue []outgoing
	// ordered are the requests to ordinary models that are not answered yet, in
	// the order in which they came.
	ordered fifo
	open    int   // requests in flight
	readEnd error // why the reader stopped: io.EOF for a half-closed stream
	closed  bool  // responses have nowhere to go: the handler is gone, or about to
	failed  error // why, when the stream ends for want of room
}

// outgoing is one message to send.
type outgoing struct {
	r     *streamInference
	resp  *backend.Response
	room  ledger.Room // of resp on the ledger
	final bool
	// last gives the request's place in flight back when it has been written.
	last bool
}

// modelStreamInfer is hop 1 of the requests of a stream.
func (s *Server) modelStreamInfer(_ any, g grpc.ServerStream) error {
	x := &stream{
		s: s, grpc: transport.StreamOf(g),
		inflight: make(chan struct{}, maxInflight),
		room:     make(chan struct{}, maxWaiting),
		wake:     make(chan struct{}, 1),
	}
	s.compression(x.grpc)
	x.ctx, x.cancel = context.WithCancel(g.Context())
	x.caller = s.caller(x.ctx)
	x.by = ledger.Asker{Conn: transport.ShareOf(x.ctx), Key: x.caller.Share()}
	v := metadata.ValueFromIncomingContext(x.ctx, errorMode)
	x.errorEnds = len(v) > 0 && v[0] == "true"
	s.work.Go(x.read)
	err := x.write()
	x.close()
	return err
}

// close ends what is in flight and drops what was not sent. The requests end
// when their models let go of them.
func (x *stream) close() { x.abandon(nil) }

// abandon drops what waits, for a reason that the writer tells; nil when it has
// gone itself.
func (x *stream) abandon(why error) {
	defer x.cancel() // who sees its end finds the reason
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.closed, x.failed = true, why
	queue := x.queue
	x.queue = nil
	for f := x.ordered.front(); f != nil; f = x.ordered.front() {
		x.ordered.pop()
		// The others end when their models are done with them.
		queue = append(queue, outgoing{r: f, resp: f.answer, room: f.room, last: f.done})
		f.answer, f.room = nil, ledger.Room{}
	}
	x.mu.Unlock()
	x.drop(queue)
}

// drop lets go of what will not be sent.
func (x *stream) drop(queue []outgoing) {
	for i := range queue {
		x.uncount(queue[i].room)
		queue[i].resp.Release()
		if queue[i].last {
			queue[i].r.end()
		}
	}
}

// count counts an answer that is going to wait; the last answer of a call counts
// the call, too. Without room for the answer an error takes its place. Without room
// for the error the stream ends: its client asks, and does not read.
func (x *stream) count(c *streamInference, resp *backend.Response, last bool) (*backend.Response, ledger.Room) {
	besides := int64(0)
	if last {
		besides = c.holds()
	}
	resp, room, why, ok := infer.Count(x.s.o.Engine.Ledger(), x.by, resp, besides)
	if !ok {
		x.abandon(status.Error(codes.ResourceExhausted, x.s.textUnread(why)))
	}
	return resp, room
}

// textUnread says why a stream ends whose client does not read.
func (s *Server) textUnread(why ledger.Reason) string {
	if why == ledger.Key {
		return "its key has more answers that are not read than the server can keep for one key beside others"
	}
	return "the stream has more answers that are not read than the server can keep (" + s.o.Words.Name("max-queued-bytes") + ")"
}

// uncount gives back what count has counted.
func (x *stream) uncount(r ledger.Room) { r.Give(x.s.o.Engine.Ledger()) }

// notify wakes the writer.
func (x *stream) notify() {
	select {
	case x.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// read takes requests off the stream until it ends.
func (x *stream) read() {
	var q protowire.Request
	var err error
	for err == nil {
		select {
		case x.inflight <- struct{}{}:
			err = x.grpc.RecvMsg(&q)
			if unread, ok := err.(*notKnown); ok { //nolint:errorlint // it comes as it is
				x.unknown(unread)
				err = nil
			} else if err == nil {
				x.request(&q)
			}
			q.Reset()
		case <-x.ctx.Done():
			err = x.ctx.Err()
		}
	}
	x.mu.Lock()
	x.readEnd = err
	x.mu.Unlock()
	x.notify()
	x.queues.wait()
}

// write sends responses until the stream has ended and all are sent.
func (x *stream) write() error {
	var batch []outgoing
	for {
		x.mu.Lock()
		batch, x.queue = x.queue, batch[:0]
		end, open, failed := x.readEnd, x.open, x.failed
		x.mu.Unlock()
		if failed != nil {
			return failed
		}
		// What is ready together leaves together. The last one may be a mark that is
		// not sent, so they are flushed behind it.
		later := len(batch) > 1
		for i := range batch {
			err := x.send(&batch[i], later)
			if err != nil {
				x.drop(batch[i:])
				return err
			}
			batch[i].resp.Release()
			if batch[i].last {
				batch[i].r.end()
				<-x.inflight
				x.mu.Lock()
				x.open--
				x.mu.Unlock()
			}
			batch[i] = outgoing{}
		}
		if later {
			x.grpc.Flush()
		}
		if len(batch) > 0 {
			continue
		}
		switch {
		case end != nil && !errors.Is(end, io.EOF):
			return end
		case end != nil && open == 0:
			return nil
		case open == 0 && x.s.closing.Load():
			return status.Error(codes.Unavailable, textShutdown)
		}
		stopping := x.s.stopping
		if x.s.closing.Load() {
			stopping = nil // seen; what is in flight goes on
		}
		select {
		case <-x.wake:
		case <-stopping:
		case <-x.ctx.Done():
			x.mu.Lock()
			failed := x.failed
			x.mu.Unlock()
			if failed != nil {
				return failed
			}
			return transport.Ended(x.ctx.Err()).Err()
		}
	}
}

// send writes one response, or ends the stream with it. With later it waits for
// a flush.
func (x *stream) send(o *outgoing, later bool) error {
	c := o.r
	defer func() { // of what is not sent
		x.uncount(o.room)
		o.room = ledger.Room{}
	}()
	if !c.ordinary {
		if o.resp != nil {
			<-x.room
		} else if !c.meaning.EmptyFinal {
			return nil // a mere mark
		}
	}
	defer c.trace.Send()()
	p := protowire.Response{Stream: true, ID: c.id}
	var failed *backend.Error
	switch {
	case o.resp == nil: // the empty final response
		p.ModelName, p.ModelVersion, p.Final = c.model, c.asked, protowire.LastOne
	case o.resp.Err != nil:
		failed = o.resp.Err
		if c.begun {
			if x.errorEnds {
				return statusOf(failed)
			}
			p.ModelName, p.ModelVersion, p.Final = c.model, c.asked, finality(o.final)
		}
		p.ErrorMessage = failed.Message
	default:
		p.ModelName, p.ModelVersion, p.Final = c.model, c.version, finality(o.final)
		if failed = c.apply(o.resp); failed == nil {
			p.Outputs, p.Parameters = o.resp.Outputs, o.resp.Parameters
			if _, failed = p.Size(); failed != nil {
				p.Outputs, p.Parameters = nil, nil
			}
		}
		if failed != nil {
			if x.errorEnds {
				return statusOf(failed)
			}
			p.ModelVersion, p.ErrorMessage = c.asked, failed.Message
		}
	}
	if failed != nil || o.resp == nil {
		if _, err := p.Size(); err != nil {
			return statusOf(err)
		}
	} else {
		o.resp.Outputs = nil // the message owns them now
	}
	if o.last {
		c.meaning.ReleaseRegions()
	}
	x.grpc.Holds(o.room)
	o.room = ledger.Room{}
	if later {
		return x.grpc.SendLater(&p)
	}
	return x.grpc.SendMsg(&p)
}

func finality(final bool) protowire.Finality {
	if final {
		return protowire.LastOne
	}
	return protowire.MoreFollow
}

// fifo is a queue of requests.
type fifo struct {
	items []*streamInference
	head  int
}

func (f *fifo) push(c *streamInference) { f.items = append(f.items, c) }

// front returns the oldest one, or nil.
func (f *fifo) front() *streamInference {
	if f.head == len(f.items) {
		return nil
	}
	return f.items[f.head]
}

func (f *fifo) pop() {
	f.items[f.head] = nil
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head >= 1024 { // keeps a never empty queue from growing
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
}

var _ infer.Sink = (*streamInference)(nil)
