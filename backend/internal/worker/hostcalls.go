package worker

import (
	"github.com/nesoserve/neso/backend/internal/worker/hostcalls"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// infer begins the call of another model.
func (c *reading) infer(h wire.Header, body []byte, in *wire.Chunk) error {
	decoded, err := wire.DecodeInfer(body)
	if err != nil {
		return err
	}
	if !decoded.Alone {
		c.called() // by a thread of its own, perhaps: more may come at any time
	}
	req, err := hostcalls.Request(h, &decoded)
	if err != nil {
		return err
	}
	o := hostcalls.Options{Arena: c.opts.Arena, Inline: segment.DefaultInlineLimit}
	c.mu.Lock()
	if inst := c.instances[h.Instance]; inst != nil {
		req.Caller = inst.Caller
		req.Caller.Waits, req.Caller.Abandoned = inst.pipeline.Running()
		o.Arena, o.Inline = inst.Arena, inst.InlineLimit
	}
	c.mu.Unlock()
	if decoded.Device && c.opts.Devices != nil {
		o.Device, req.TakesDevice = true, c.seesDevice
	}
	cur := wire.NewCursor(h.Kind, body)
	inputs := decoded.Request.Inputs
	for i := range inputs {
		t, err := c.tensor(string(inputs[i].Name), &inputs[i], &cur, in, &returned{open: true})
		if err != nil {
			hostcalls.ReleaseTensors(req.Inputs)
			return err
		}
		req.Inputs = append(req.Inputs, t)
	}
	call, err := c.host.Infer(c.ctx, h, &decoded, req, o)
	if call == nil {
		return err
	}
	if decoded.Alone && c.leading && !c.rd.Buffered() {
		// Nothing more comes before the answer, so that whoever reads may as well go
		// and fetch it: that saves two switches between goroutines. See lead.
		c.fetch = call
		return nil
	}
	// The server may queue, load or refuse: not the reader's time.
	c.wg.Go(call.Run)
	return nil
}

// sendAnswer sends a response to a call; see hostcalls.Worker.
func (c *Conn) sendAnswer(a hostcalls.Answer, wait bool) error {
	unsent, err := c.writeAnswer(&a, wait)
	hostcalls.ReleaseShared(unsent)
	return err
}

// writeAnswer returns what is shared and was not sent, to be released without the
// lock.
func (c *Conn) writeAnswer(a *hostcalls.Answer, wait bool) (unsent []hostcalls.Shared, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for wait && len(c.out) > callRoom && c.err == nil {
		c.room.Wait()
	}
	if c.err != nil {
		return a.Shared, ErrEnded
	}
	c.releasesLocked()
	for k, s := range a.Shared {
		if !s.Lent {
			r := s.Buf.Region()
			number, err := c.wireLocked(a.Arena, r.Segment)
			if err != nil {
				return a.Shared[k:], err
			}
			a.Out.Places[s.Output] = wire.Place{Segment: number, Offset: r.Offset}
		}
		at := a.Out.Places[s.Output]
		c.ledger.Give(wire.Block{Segment: at.Segment, Offset: at.Offset}, s.Buf)
	}
	if c.out, err = c.enc.AppendResponses(c.out, wire.KindInferResponses, 0, a.Out.Handle, 0, []wire.Outgoing{a.Out}); err != nil {
		return nil, err
	}
	c.flushLocked()
	return nil, nil
}
