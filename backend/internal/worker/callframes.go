package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// callFrames takes the frames in which the worker asks something of the server: INFER,
// with CANCEL and CREDIT, METRIC, CONTROL, BIND and UNBIND.
type callFrames struct {
	work  guard[work]
	turns guard[turns]
	views *views
	host  *hostcalls.Calls
	ctx   context.Context // ends with the connection
	arena *segment.Arena  // for large answers when the caller is no instance
	// sees is Request.TakesDevice of the calls; nil where the worker has no GPU.
	sees func(tensor.GPU) bool
	// serve answers what only the processes of users may ask; nil refuses it.
	serve func(ctx context.Context, kind wire.Kind, body json.RawMessage) (any, error)
	// usage is what the worker says of its memory.
	usage *usage
	reply func(id uint64, value any, err error) error
}

// called notes that the process calls the server by itself.
func (c *callFrames) called() {
	c.turns.lock().election.Called(time.Now())
	c.turns.unlock()
}

// control serves CONTROL.
func (c *callFrames) control(h wire.Header, body []byte) error {
	c.called()
	return c.host.Control(c.ctx, h, body, func(b *wire.ControlBody) error {
		switch {
		case b.Op == "memory" && b.Memory != nil:
			return c.reply(h.ID, nil, c.usage.take(b.Memory))
		case c.serve == nil:
			return c.reply(h.ID, nil, fmt.Errorf("unknown operation '%s' of model control", b.Op))
		}
		return c.other(h, body)
	})
}

// other answers a call that the owner of the connection knows.
func (c *callFrames) other(h wire.Header, body []byte) error {
	if c.serve == nil {
		return c.host.Refuse(h.ID)
	}
	text := json.RawMessage(append([]byte(nil), body...))
	return c.host.Run(h.ID, func() (any, error) { return c.serve(c.ctx, h.Kind, text) }) // binding takes its time
}

// infer takes the call of another model, which is to be run. alone says that the worker
// sends nothing more before the answer. Without a call there is nothing to do.
func (c *callFrames) infer(h wire.Header, body []byte, in *wire.Chunk) (call *hostcalls.Infer, alone bool, err error) {
	decoded, err := wire.DecodeInfer(body)
	if err != nil {
		return nil, false, err
	}
	if !decoded.Alone {
		c.called() // by a thread of its own, perhaps: more may come at any time
	}
	req, err := hostcalls.Request(h, &decoded)
	if err != nil {
		return nil, false, err
	}
	o := hostcalls.Options{Arena: c.arena, Inline: segment.DefaultInlineLimit}
	w := c.work.lock()
	if inst := w.instances[h.Instance]; inst != nil {
		req.Caller = inst.Caller
		req.Caller.Waits, req.Caller.Abandoned = inst.pipeline.Running()
		req.Caller.For = w.serves(inst)
		o.Arena, o.Inline = inst.Arena, inst.InlineLimit
	}
	c.work.unlock()
	if decoded.Device && c.sees != nil {
		o.Device, req.TakesDevice = true, c.sees
	}
	cur := wire.NewCursor(h.Kind, body)
	inputs := decoded.Request.Inputs
	for i := range inputs {
		t, err := c.views.tensor(string(inputs[i].Name), &inputs[i], &cur, in, &returned{open: true})
		if err != nil {
			hostcalls.ReleaseTensors(req.Inputs)
			return nil, false, err
		}
		req.Inputs = append(req.Inputs, t)
	}
	call, err = c.host.Infer(c.ctx, h, &decoded, req, o)
	return call, decoded.Alone, err
}
