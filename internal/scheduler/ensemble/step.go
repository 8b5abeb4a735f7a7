package ensemble

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// stepRequest is one request to a step, as the sink of its answers.
type stepRequest struct {
	x      *run
	at     start
	seen   int
	permit bool
	q      sequence // of its inputs
	phases [4]int64 // written before the final event
}

func (x *run) newRequest(at start) *stepRequest {
	if n := len(x.unused); n > 0 {
		c := x.unused[n-1]
		x.unused = x.unused[:n-1]
		c.at = at
		return c
	}
	return &stepRequest{x: x, at: at}
}

// free makes it usable for another request.
func (c *stepRequest) free(x *run) {
	*c = stepRequest{x: x}
	x.unused = append(x.unused, c)
}

// start sends a step's request, or parks it until there is a permit.
func (x *run) start(at start) {
	if l := x.s.limits; l != nil && !l[at.step].take(x) {
		x.parked[at.step] = append(x.parked[at.step], at)
		x.nPark++
		return
	}
	x.send(at)
}

// permit starts the step that has waited longest for a permit.
func (x *run) permit(step int) {
	if len(x.parked[step]) == 0 {
		x.s.limits[step].give(step)
		return
	}
	at := x.parked[step][0]
	x.parked[step] = x.parked[step][1:]
	x.nPark--
	x.send(at)
}

// send makes a step's request and hands it to the server.
func (x *run) send(at start) {
	st := &x.s.g.steps[at.step]
	c := x.newRequest(at)
	c.permit = x.s.limits != nil
	o, inputs := x.r, x.inputs(c, st)
	id, flags := o.Correlation, o.Flags
	if c.q.set {
		id, flags = c.q.id, c.q.flags
	}
	target := x.targets[at.step]
	if st.version == -1 && !id.IsZero() {
		// Another version may get new sequences since this one began.
		if other := x.s.o.Host.Holding(st.model, target, id); other != nil {
			target = other
			defer other.Unpin()
		}
	}
	r, cfg := target.NewRequest(c), target.Config()
	r.Ctx, r.ID = x.ctx, o.ID
	if o.Timeline != nil {
		r.Timeline = o.Timeline.Child()
	}
	if o.Spans != nil {
		r.For = []*infer.Spans{o.Spans}
	}
	r.Correlation, r.Flags, r.Priority, r.Timeout, r.Parameters = id, flags, o.Priority, o.Timeout, o.Parameters
	r.Requested, r.Spare, r.Internal = x.flow.n.request[at.step], x.flow.n.spares[at.step], o.Internal
	r.Inputs = fitted(inputs, cfg)
	if x.devices && x.wantsDevice(st) {
		r.TakesDevice = anyGPU
	}
	r.Times.Receive = backend.Now()
	r.Times.Start = r.Times.Receive
	switch {
	case x.flow.running == 1 && !cfg.Decoupled:
		// Nothing else can happen meanwhile, so it may run on this goroutine.
		x.infer(c, r)
	case cfg.Dynamic != nil || cfg.Sequence != nil:
		r.Background = true // a batcher takes it over at once
		x.infer(c, r)
	case at.scope.label != 0 && instances(cfg) == 1:
		x.queue(at.step, c, r)
	default:
		x.work.Go(func() { x.infer(c, r) })
	}
}

// inputs makes the inputs of a step's request. They are the tensors
// themselves: nothing is copied.
func (x *run) inputs(c *stepRequest, st *step) []tensor.Tensor {
	inputs := make([]tensor.Tensor, 0, len(st.in))
	for i, e := range st.in {
		t, q, ok := x.flow.take(c.at.scope, e)
		if !ok {
			continue // an optional input that was not given
		}
		x.passed[st.first+i]++
		if q.set {
			c.q = q
		}
		t.Name = e.name
		inputs = append(inputs, t)
	}
	return inputs
}

// fitted gives inputs the ranks that a model wants them to have.
func fitted(inputs []tensor.Tensor, cfg *modelconfig.Config) []tensor.Tensor {
	for i := range inputs {
		t := &inputs[i]
		if in := cfg.Input(t.Name); in != nil {
			t.Shape = fit(t.Shape, rank(cfg, in.Dims, in.ShapeTensor))
		}
	}
	return inputs
}

// rank is that of a shape of the configuration with its batch dimension.
func rank(c *modelconfig.Config, dims tensor.Shape, shapeTensor bool) int {
	if c.MaxBatchSize > 0 && !shapeTensor {
		return len(dims) + 1
	}
	return len(dims)
}

// infer is hop 2 again.
func (x *run) infer(c *stepRequest, r *infer.Request) {
	if err := x.s.o.Host.Infer(r); err != nil {
		c.release()
		x.push(event{at: c.at, from: c, resp: &backend.Response{Err: backend.AsError(err)}, final: true})
	}
}

// pin pins the models of the steps that the request needs, so that all its
// steps have them, and of one version in all iterations, whatever is reloaded
// or unloaded meanwhile.
func (x *run) pin() {
	x.devices = x.r.TakesDevice != nil
	for i, needed := range x.flow.n.steps {
		if !needed {
			continue
		}
		st := &x.s.g.steps[i]
		target, err := x.s.o.Host.Pin(st.model, st.version)
		if err != nil {
			x.fail(backend.AsError(err))
			return
		}
		x.targets[i] = target
		x.devices = x.devices || target.TakesDevice()
	}
}

func (x *run) unpin() {
	for i, target := range x.targets {
		if target != nil {
			target.Unpin()
			x.targets[i] = nil
		}
	}
}

// stepQueue hands requests to a step one after the other.
type stepQueue struct {
	busy    bool
	waiting []handover
}

type handover struct {
	c *stepRequest
	r *infer.Request
}

// instances counts those of a model. One with a single instance has to see the
// responses of a decoupled step in their order: it may keep state from one
// request to the next.
func instances(cfg *modelconfig.Config) (n int) {
	for i := range cfg.Groups {
		n += cfg.Groups[i].Count * max(1, len(cfg.Groups[i].GPUs))
	}
	return n
}

// queue hands a request over after those that were queued for the step before.
func (x *run) queue(step int, c *stepRequest, r *infer.Request) {
	l := &x.queues[step]
	x.mu.Lock()
	defer x.mu.Unlock()
	l.waiting = append(l.waiting, handover{c, r})
	if !l.busy {
		l.busy = true
		x.work.Go(func() { x.serve(l) })
	}
}

func (x *run) serve(l *stepQueue) {
	for {
		x.mu.Lock()
		if len(l.waiting) == 0 {
			l.busy = false
			x.mu.Unlock()
			return
		}
		h := l.waiting[0]
		l.waiting[0] = handover{}
		l.waiting = l.waiting[1:]
		x.mu.Unlock()
		x.infer(h.c, h.r)
	}
}

// Deliver implements infer.Sink.
func (c *stepRequest) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	x, at := c.x, c.at
	st := &x.s.g.steps[at.step]
	resp = x.settleOutputs(st, resp)
	room := st.makes != st.label && resp != nil && resp.Err == nil
	if room && !x.enter(r.Ctx, st) {
		room = false
		resp.Release()
		resp = &backend.Response{Err: backend.Errorf(backend.Unavailable, "more than %d responses of model '%s' wait for later steps",
			limit, st.model)}
	}
	if final {
		if r.Times.ComputeStart != 0 {
			c.phases[0], c.phases[1], c.phases[2], c.phases[3] = r.Times.Phases()
		}
		c.release()
	}
	x.push(event{at: at, from: c, resp: resp, final: final, room: room})
}

// release gives the permit back.
func (c *stepRequest) release() {
	if c.permit {
		c.permit = false
		c.x.s.limits[c.at.step].give(c.at.step)
	}
}

// follow returns the sequence of what a response is made into: that of the
// inputs, as far as the response does not say another.
func (c *stepRequest) follow(parameters []backend.Parameter) sequence {
	q := c.q
	for _, p := range parameters {
		var flag backend.Flags
		switch {
		case p.Name == "sequence_id" && p.Kind == backend.StringParameter:
			c.x.own(&q).id = backend.CorrelationID{Text: p.Text()}
			continue
		case p.Name == "sequence_id" && (p.Kind == backend.IntParameter || p.Kind == backend.UintParameter):
			c.x.own(&q).id = backend.CorrelationID{Number: p.Uint64()}
			continue
		case p.Name == "sequence_start" && p.Kind == backend.BoolParameter:
			flag = backend.SequenceStart
		case p.Name == "sequence_end" && p.Kind == backend.BoolParameter:
			flag = backend.SequenceEnd
		default:
			continue
		}
		c.x.own(&q).flags &^= flag
		if p.IsTrue() {
			q.flags |= flag
		}
	}
	return q
}

// own makes q a sequence of its own, beginning with the request's.
func (x *run) own(q *sequence) *sequence {
	if !q.set {
		*q = sequence{set: true, id: x.r.Correlation, flags: x.r.Flags}
	}
	return q
}
