package hostcalls

import (
	"context"
	"errors"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

var errAnswered = errors.New("the call has been answered")

// Infer is a BLS request under way. It takes the responses of the called model and
// sends them to the worker.
type Infer struct {
	calls     *Calls
	id        uint64
	arena     *segment.Arena
	inline    int
	decoupled bool
	window    *stream.CallWindow // nil when the worker returns no credit
	device    bool               // outputs may lie on a GPU
	tells     bool               // the worker is to be told which version serves the call
	pinned    int64              // that version, while the worker has not been told; 0 for none
	ctx       context.Context
	stop      context.CancelFunc
	req       *backend.Request
	mu        sync.Mutex
	first     *backend.Response // of a call that expects one
	answered  bool
}

// Options say what an answer may be like.
type Options struct {
	Arena  *segment.Arena // for large outputs; nil: they travel in the frame
	Inline int            // up to so many bytes travel in the frame
	Device bool           // outputs may lie on a GPU
}

// Request returns the request of an INFER, without inputs.
func Request(h wire.Header, decoded *wire.InferCall) (*backend.Request, error) {
	r := &decoded.Request
	params, err := wire.ParseParameters(r.Parameters)
	if err != nil {
		return nil, &wire.ProtocolError{Kind: h.Kind, Field: "parameters", Detail: err.Error()}
	}
	req := &backend.Request{
		ID: string(r.ID), ModelName: string(decoded.Model), ModelVersion: decoded.Version,
		Correlation: backend.CorrelationID{Number: r.Correlation, Text: string(r.CorrelationText)},
		Flags:       r.RequestFlags(), Priority: r.Priority, Timeout: r.Timeout,
		Parameters: params, BatchSize: int(r.BatchSize), Trace: string(r.Trace),
	}
	for _, name := range decoded.Requested {
		req.Requested = append(req.Requested, string(name))
	}
	return req, nil
}

// Infer begins an INFER, whose Run is for the caller. It returns nil when it has
// refused the call, with the error of that. It consumes the request.
func (c *Calls) Infer(ctx context.Context, h wire.Header, decoded *wire.InferCall, req *backend.Request, o Options) (*Infer, error) {
	call := &Infer{
		calls: c, id: h.ID, decoupled: decoded.Decoupled, arena: o.Arena, inline: o.Inline, device: o.Device, tells: decoded.Pinned, req: req,
	}
	if decoded.Window {
		call.window = stream.NewCallWindow()
	}
	call.ctx, call.stop = context.WithCancel(ctx)
	req.Ctx, req.Responder, req.Caller.Single = call.ctx, call, !decoded.Decoupled
	refusal := error(nil)
	switch {
	case c.w.Host == nil:
		refusal = errNoHost
	case !c.begin():
		refusal = errTooMany
	}
	if refusal != nil {
		call.stop()
		ReleaseTensors(req.Inputs)
		return nil, call.send(&backend.Response{Err: backend.AsError(refusal)}, true, false)
	}
	c.mu.Lock()
	c.infers[h.ID] = call
	c.mu.Unlock()
	return call, nil
}

// Run sends the request to the called model. It may wait for the model.
func (i *Infer) Run() {
	if err := i.calls.w.Host.Infer(i.req); err != nil {
		_ = i.Respond(&backend.Response{Err: backend.AsError(err)}, true) // the worker is gone then
	}
}

// ReleaseTensors lets go of the memory of tensors.
func ReleaseTensors(list []tensor.Tensor) {
	for i := range list {
		list[i].Release()
	}
}

// Cancelled implements backend.Responder.
func (i *Infer) Cancelled() bool { return i.ctx.Err() != nil }

// Pinned implements backend.Pinner.
func (i *Infer) Pinned(version int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tells {
		i.pinned = version
	}
}

// Respond implements backend.Responder.
func (i *Infer) Respond(resp *backend.Response, final bool) error {
	i.mu.Lock()
	if i.answered {
		i.mu.Unlock()
		resp.Release()
		return errAnswered
	}
	if final {
		i.answered = true
	}
	if !i.decoupled {
		// The one answer waits for the final mark.
		if resp != nil {
			i.first.Release()
			i.first = resp
		}
		resp = i.first
		if !final {
			i.mu.Unlock()
			return nil
		}
		i.first = nil
	}
	i.mu.Unlock()
	if i.window != nil && resp != nil && !final {
		if !i.window.Spend(i.ctx, resp) {
			resp.Release()
			return backend.AsError(i.ctx.Err())
		}
	}
	err := i.send(resp, final, i.decoupled)
	if final {
		i.stop()
		c := i.calls
		c.mu.Lock()
		delete(c.infers, i.id)
		c.mu.Unlock()
		c.finish()
		ReleaseTensors(i.req.Inputs)
	}
	return err
}

// Answer is a response to an INFER, on its way to the worker.
type Answer struct {
	Out wire.Outgoing
	// Shared are the outputs that the worker reads in shared memory.
	Shared []Shared
	Arena  *segment.Arena // of those that were copied
	// Pinned, when not 0, is the version that serves the call, which the worker is told.
	Pinned int64
}

// Shared is an output of a called model that the caller reads in shared memory,
// until it says that it no longer does.
type Shared struct {
	Output int // index in the response
	Buf    *tensor.Buffer
	Lent   bool // lies where the called model put it; else in the arena, and where is not known yet
}

// ReleaseShared lets go of outputs that were not sent.
func ReleaseShared(list []Shared) {
	for _, s := range list {
		s.Buf.Release()
	}
}

// send consumes the response. With wait set it waits while the worker does not
// read: only the responses of a decoupled callee may, the others come on the reader
// of the callee's connection.
func (i *Infer) send(resp *backend.Response, final, wait bool) error {
	defer resp.Release()
	a := Answer{Out: wire.Outgoing{Handle: i.id}, Arena: i.arena}
	i.mu.Lock()
	a.Pinned, i.pinned = i.pinned, 0
	i.mu.Unlock()
	if final {
		a.Out.Flags |= wire.ResponseFinal
	}
	if resp == nil {
		a.Out.Flags |= wire.ResponseNone
	} else {
		a.Out.Err, a.Out.Parameters = resp.Err, resp.Parameters
		if resp.Err == nil {
			a.Out.Outputs = resp.Outputs
			var err error
			if a.Shared, err = i.share(resp.Outputs, &a.Out); err != nil {
				a.Out = wire.Outgoing{Handle: i.id, Flags: a.Out.Flags, Err: backend.AsError(err)}
			}
		}
	}
	return i.calls.w.Send(a, wait)
}

// share brings large outputs of the called model to the caller: it is lent the
// memory that they lie in, or they are copied into its input memory.
func (i *Infer) share(outputs []tensor.Tensor, out *wire.Outgoing) ([]Shared, error) {
	w := &i.calls.w
	var shared []Shared
	out.Places = make([]wire.Place, len(outputs))
	for k := range outputs {
		out.Places[k] = wire.Place{Segment: wire.InlineSegment}
		if outputs[k].OnDevice() {
			if i.device {
				if at, ok := w.Lend(&outputs[k]); ok {
					out.Places[k] = at
					shared = append(shared, Shared{k, outputs[k].Buffer.Retain(), true})
					continue
				}
			}
			if err := w.ToHost(&outputs[k]); err != nil {
				ReleaseShared(shared)
				return nil, err
			}
		}
		data := outputs[k].Data
		if len(data) <= i.inline || i.arena == nil {
			continue
		}
		if at, ok := w.Lend(&outputs[k]); ok {
			out.Places[k] = at
			shared = append(shared, Shared{k, outputs[k].Buffer.Retain(), true})
			continue
		}
		buf, err := i.arena.AllocateShared(len(data))
		if err != nil {
			ReleaseShared(shared)
			return nil, err
		}
		copy(buf.Bytes(), data)
		shared = append(shared, Shared{k, buf, false})
	}
	return shared, nil
}
