// Package flight has the requests to a model that a request of OpenAI's API becomes,
// while they are on their way: it sends them, merges what comes back, and ends only
// when their memory is in no use any more.
package flight

import (
	"context"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/openai"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/tracing"
)

const (
	// streamRoom is how many responses of a request wait here. The next one makes the
	// model wait.
	streamRoom = 8
	// together is how many requests are on their way at once: all choices of prompts,
	// and of the texts of one request for vectors a part, so that others' come between.
	together = 64
)

// Options are what a flight needs of the front end.
type Options struct {
	Engine *engine.Engine
	Caller *auth.Caller // nil where no keys are asked for
	// Model is the model's name, Ask the version that the client wants of it.
	Model string
	Ask   rollout.Ask
	// Came is when the request came, in the clock of backend.Now, Limit bounds each input
	// in bytes.
	Came, Limit int64
	// Heavily runs what may take long, at once or when its turn comes, see package lane.
	Heavily func(stop <-chan struct{}, size int, f func() *backend.Error) *backend.Error
	// Trace begins the timeline of a request; its result may be nil.
	Trace func(*infer.Request) *tracing.Trace
	// Ended, if not nil, is told of each request that has ended, and why it failed.
	Ended func(*infer.Request, *backend.Error)
}

// Flight is what is on its way. It belongs to one goroutine.
type Flight struct {
	o      Options
	ctx    context.Context //nolint:containedctx // it is the request's
	cancel context.CancelFunc
	q      *openai.Request
	todo   *openai.Calls
	calls  []*call // that have begun
	// serves is what the first call went to.
	serves  *model.Model
	running int
	answers chan Answered // has no room: a slow client slows the model
	readers sync.WaitGroup
}

// call is one request to the model.
type call struct {
	ctx     context.Context //nolint:containedctx // it is the request's
	cancel  context.CancelFunc
	stopped bool // nobody wants what comes
	req     *infer.Request
	sink    *infer.Stream
	trace   *tracing.Trace
	fail    *backend.Error
}

// Answered is what a call has given.
type Answered struct {
	Call int
	// Resp is a response, which is the receiver's to release; nil is the end of the call.
	Resp *backend.Response
	// Fail ends the call with an error.
	Fail *backend.Error
}

// Begin sends requests to the model of q, and Next those for which there is no room
// yet. An error says that none is on its way; else Close has to be called.
func Begin(ctx context.Context, o Options, q *openai.Request, calls *openai.Calls) (*Flight, *backend.Error) {
	f := &Flight{o: o, q: q, todo: calls, answers: make(chan Answered)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	var first []*call
	for i := range min(calls.Count, together) {
		c, fail := f.make(calls.JSON(i))
		if fail != nil && f.waits(fail, i) {
			break
		}
		if fail != nil {
			f.cancel()
			for _, c := range first {
				c.req.Discard()
				c.end()
			}
			return nil, fail
		}
		first = append(first, c)
	}
	for _, c := range first {
		f.send(c)
	}
	return f, nil
}

// waits reports whether what was refused is sent when one of those that run has ended:
// a request for vectors is as many of the model as it has texts, which may be more than
// there is room for, or than its key may have.
func (f *Flight) waits(fail *backend.Error, running int) bool {
	return f.q.Route == openai.Embeddings && running > 0 && (fail.Code == backend.ResourceExhausted || fail.Code == backend.Unavailable)
}

// more sends what there is room for now.
func (f *Flight) more() *backend.Error {
	for len(f.calls) < f.todo.Count && f.running < together {
		c, fail := f.make(f.todo.JSON(len(f.calls)))
		if fail != nil && f.waits(fail, f.running) {
			return nil
		}
		if fail != nil {
			return fail
		}
		f.send(c)
	}
	return nil
}

// send has the engine take a request.
func (f *Flight) send(c *call) {
	i := len(f.calls)
	f.calls = append(f.calls, c)
	f.running++
	if f.o.Ended != nil {
		c.req.Hold()
	}
	// As in package httpapi: the engine may run the model on this goroutine, and the
	// reader takes the responses. It ends with the request or its execution.
	go func() {
		if err := f.o.Engine.Infer(c.req); err != nil {
			c.sink.Refuse(err)
		}
	}()
	f.readers.Go(func() { f.read(i, c) })
}

// make decodes one request to the model, as hop 1 of the generate extension does.
func (f *Flight) make(text []byte) (*call, *backend.Error) {
	ctx, cancel := context.WithCancel(f.ctx)
	sink := infer.NewStream(ctx, streamRoom)
	sink.Ledger, sink.By = f.o.Engine.Ledger(), ledger.Asker{Key: f.o.Caller.Share()}
	pin, err := f.o.Engine.ResolveFor(ctx, f.o.Caller, nil, f.o.Model, f.o.Ask, int64(len(text)))
	if err != nil {
		cancel()
		return nil, backend.AsError(err)
	}
	if f.serves == nil {
		f.serves = pin.Model
	}
	if f.serves != pin.Model && f.q.Route == openai.Embeddings {
		pin.Unpin()
		cancel()
		return nil, mixed(f.o.Model)
	}
	req := pin.NewRequest(sink)
	if a := &f.o.Ask; req.Route != nil && a.Version == -1 && a.Label == "" && !a.Chosen {
		// The model was not loaded when the version was to be chosen. The others go there too.
		a.Version, a.Chosen, a.Reason = req.ModelVersion, true, req.Route.Reason
	}
	req.Times.Receive = f.o.Came
	req.Ctx = ctx
	var d jsonwire.Decoder
	body := jsonwire.Body{JSON: text, Limit: f.o.Limit}
	target := kserve.Target{Config: pin.Model.Config(), Allocator: pin.Model.Allocator(), Reserver: req}
	fail := f.o.Heavily(f.ctx.Done(), len(text), func() *backend.Error { return d.DecodeGenerate(&req.Request, target, &body) })
	if fail != nil {
		cancel()
		req.Discard()
		return nil, fail
	}
	_ = pin.Continue(req)
	req.Times.Start = backend.Now()
	c := &call{ctx: ctx, cancel: cancel, req: req, sink: sink, trace: f.o.Trace(req)}
	if f.q.Stream {
		c.trace.EachResponse()
	}
	return c, nil
}

// mixed is the error of vectors that two models would give, which nobody could compare.
func mixed(name string) *backend.Error {
	err := backend.Errorf(backend.Unavailable, "model '%s' was loaded anew, or another version took its place, while the request was "+
		"answered: its vectors would not be of one model", name)
	err.RetryAfter = time.Second
	return err
}

// read hands the responses of call i on, until its end. It returns when the memory of
// the request is in no use any more.
func (f *Flight) read(i int, c *call) {
	defer c.sink.Drain()
	for {
		it := Answered{Call: i, Resp: c.sink.Next()}
		if it.Resp == nil {
			if err := c.sink.Refusal(); err != nil {
				it.Fail = backend.AsError(err)
			}
		} else if it.Resp.Err != nil {
			it.Fail = it.Resp.Err
		}
		select {
		case f.answers <- it:
		case <-c.ctx.Done():
			it.Resp.Release()
			return
		}
		if it.Resp == nil {
			return
		}
	}
}

// Calls returns how many requests to the model there are.
func (f *Flight) Calls() int { return f.todo.Count }

// Next waits for what comes next of any call; false says that the client is gone.
func (f *Flight) Next() (Answered, bool) {
	for {
		select {
		case it := <-f.answers:
			switch c := f.calls[it.Call]; {
			case c.stopped:
				it.Resp.Release()
				continue
			case it.Fail != nil:
				c.fail = it.Fail
				it.Resp.Release()
				it.Resp = nil
			case it.Resp == nil:
				f.running--
				it.Fail = f.more()
			}
			return it, true
		case <-f.ctx.Done():
			return Answered{}, false
		}
	}
}

// Stop ends call i, of which nobody wants more: the model is told, and Next has nothing
// of it from here on.
func (f *Flight) Stop(i int) {
	c := f.calls[i]
	c.stopped = true
	f.running--
	c.cancel()
}

// Waiting reports whether a call has another response at once.
func (f *Flight) Waiting(i int) bool { return f.calls[i].sink.Waiting() }

// Close cancels what is still on its way, and waits for its end.
func (f *Flight) Close() {
	f.cancel()
	f.readers.Wait()
	for _, c := range f.calls {
		c.end()
		if f.o.Ended != nil {
			f.o.Ended(c.req, c.fail)
		}
	}
}

func (c *call) end() {
	c.cancel()
	c.trace.Done()
}
