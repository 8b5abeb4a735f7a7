package engine

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/tensor"
)

// mirrors sends copies of requests to versions that do not answer them, after the client
// has its answer. A copy has memory of its own, which the ledger counts, and is dropped
// where there is not plenty: it takes no place that a client's request could have.
type mirrors struct {
	ctx  context.Context // ends when copies must stop
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	over  bool
	lanes map[*rollout.Live]*laneOfCopies
}

// laneOfCopies are the copies of one model.
type laneOfCopies struct {
	running int
	waiting []*shadow // at most as many as the rules say, which copy looks after
}

func (x *mirrors) open() {
	x.ctx, x.end = context.WithCancel(context.Background())
	x.lanes = map[*rollout.Live]*laneOfCopies{}
}

// stop ends the copies, those that wait too.
func (x *mirrors) stop() {
	x.end()
	x.mu.Lock()
	x.over = true
	var left []*shadow
	for _, lane := range x.lanes {
		left = append(left, lane.waiting...)
		lane.waiting = nil
	}
	x.mu.Unlock()
	for _, s := range left {
		s.giveUp(rollout.Dropped)
	}
}

// wait waits for the copies that run.
func (x *mirrors) wait() { x.work.Wait() }

// add runs a copy now or when its turn comes.
func (x *mirrors) add(s *shadow) {
	if !x.place(s) {
		s.giveUp(rollout.Dropped)
	}
}

func (x *mirrors) place(s *shadow) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	lane := x.lanes[s.route.Live]
	if lane == nil {
		lane = &laneOfCopies{}
		x.lanes[s.route.Live] = lane
	}
	if lane.running >= s.route.Plan.Rules.Mirror.Concurrency {
		lane.waiting = append(lane.waiting, s)
		return true
	}
	lane.running++
	x.work.Go(func() {
		for s := s; s != nil; s = x.next(s.route.Live, lane) {
			s.run()
		}
	})
	return true
}

func (x *mirrors) next(of *rollout.Live, lane *laneOfCopies) *shadow {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(lane.waiting) == 0 {
		if lane.running--; lane.running == 0 {
			delete(x.lanes, of)
		}
		return nil
	}
	s := lane.waiting[0]
	lane.waiting[0] = nil
	lane.waiting = lane.waiting[1:]
	return s
}

// shadow is the copy of one request.
type shadow struct {
	e       *Engine
	route   *rollout.Route
	to      int64
	request backend.Request
	bytes   int64 // on the ledger
	answer  []tensor.Tensor
	outcome rollout.Outcome // Equal as long as there may be something to compare
	ended   sync.Once
}

// copy makes the copy of a request, if the rules want one and there is room. It runs
// once the client has its answer.
func (e *Engine) copy(r *infer.Request) *shadow {
	plan, live := r.Route.Plan, r.Route.Live
	if plan.MirrorTo == 0 || !plan.Mirrors(r.ModelVersion, rand.Uint64()) { //nolint:gosec // a share is no secret
		return nil
	}
	s := &shadow{e: e, route: r.Route, to: plan.MirrorTo}
	rules := plan.Rules.Mirror
	if live.Held.Add(1) > int64(rules.Concurrency+rules.Queue) {
		s.giveUp(rollout.Dropped)
		return nil
	}
	if !s.take(r.Inputs, &s.request.Inputs, texts(r)) {
		s.giveUp(rollout.Dropped)
		return nil
	}
	q := &s.request
	q.ID, q.Priority = strings.Clone(r.ID), r.Priority
	for _, name := range r.Requested[:len(r.Requested)-r.Hidden] {
		q.Requested = append(q.Requested, strings.Clone(name))
	}
	for _, p := range r.Parameters {
		p.Name = strings.Clone(p.Name)
		if p.Kind == backend.StringParameter {
			p = backend.String(p.Name, strings.Clone(p.Text()))
		}
		q.Parameters = append(q.Parameters, p)
	}
	r.Watch(func(resp *backend.Response, final bool) { s.see(r, resp, final) })
	return s
}

// mirrorShare is the share of the ledger that copies leave to clients: one comes only
// where half of all would fit besides.
const mirrorShare = 2

// texts is how long the texts of a request are, which its copy has of its own: an id
// may be as long as a body.
func texts(r *infer.Request) int64 {
	n := len(r.ID)
	for _, name := range r.Requested {
		n += len(name)
	}
	for _, p := range r.Parameters {
		n += len(p.Name)
		if p.Kind == backend.StringParameter {
			n += len(p.Text())
		}
	}
	return int64(n)
}

// take copies tensors into memory that the ledger counts, with so many bytes more.
func (s *shadow) take(from []tensor.Tensor, into *[]tensor.Tensor, more int64) bool {
	n := more
	for i := range from {
		if from[i].OnDevice() {
			return false
		}
		n += int64(len(from[i].Data))
	}
	l := s.e.admission.ledger
	if !l.Fits(ledger.In, n+l.Limit(ledger.In)/mirrorShare) || !l.Take(ledger.In, n) {
		return false
	}
	s.bytes += n
	for i := range from {
		t := tensor.Tensor{Name: strings.Clone(from[i].Name), Datatype: from[i].Datatype, Shape: from[i].Shape.Clone()}
		if size := len(from[i].Data); size > 0 {
			b, err := s.e.o.Allocator.Allocate(size)
			if err != nil {
				return false
			}
			t.Buffer, t.Data = b, b.Bytes()[:size:size]
			copy(t.Data, from[i].Data)
		}
		*into = append(*into, t)
	}
	return true
}

// see takes what the client is answered with.
func (s *shadow) see(r *infer.Request, resp *backend.Response, final bool) {
	if resp != nil {
		switch {
		case resp.Err != nil || r.Cancelled() || s.answer != nil:
			s.outcome = rollout.Skipped
		case s.outcome != rollout.Equal:
		case !s.take(resp.Outputs, &s.answer, 0):
			s.outcome = rollout.Dropped
		}
	}
	switch {
	case !final:
	case s.outcome != rollout.Equal:
		s.giveUp(s.outcome)
	case r.Responses() != 1 || r.Cancelled():
		s.giveUp(rollout.Skipped)
	default:
		s.e.mirrors.add(s)
	}
}

// giveUp ends a copy, once.
func (s *shadow) giveUp(o rollout.Outcome) { s.end(o, "") }

func (s *shadow) end(o rollout.Outcome, difference string) {
	s.ended.Do(func() {
		for _, list := range [][]tensor.Tensor{s.request.Inputs, s.answer} {
			for i := range list {
				list[i].Release()
			}
		}
		s.e.admission.ledger.Give(ledger.In, s.bytes)
		s.route.Live.Held.Add(-1)
		s.route.Live.Mirrored(s.to, o, difference)
	})
}

// run sends the copy, waits for its answer and compares.
func (s *shadow) run() {
	m := s.e.life.Pin(s.route.Plan.Name, s.to)
	if m == nil {
		s.giveUp(rollout.Failed)
		return
	}
	ctx, cancel := context.WithTimeout(s.e.mirrors.ctx, s.route.Plan.Rules.Mirror.Timeout)
	defer cancel()
	sink := infer.NewSingle()
	r := infer.New(sink, endShadow)
	inner := r.Responder
	r.Request = s.request
	r.Responder, r.Ctx = inner, ctx
	r.Inputs = append([]tensor.Tensor(nil), s.request.Inputs...)
	for i := range r.Inputs {
		r.Inputs[i].Retain()
	}
	r.Owner, r.ModelName, r.ModelVersion, r.Internal = m, m.Config().Name, m.Version(), true
	r.OnAbandoned = s.e.abandonInternal
	if d := m.Config().Dynamic; d != nil && d.PriorityLevels > 0 {
		r.Priority = d.PriorityLevels // behind those that somebody waits for
	}
	r.Times.Receive = backend.Now()
	r.Times.Start = r.Times.Receive
	if err := s.e.Infer(r); err != nil {
		s.end(rollout.Failed, "the copy failed: "+err.Error())
		return
	}
	resp, fail := sink.Wait()
	if fail != nil {
		if s.e.mirrors.ctx.Err() != nil {
			s.giveUp(rollout.Dropped)
			return
		}
		s.end(rollout.Failed, "the copy failed: "+fail.Message)
		return
	}
	o, difference := rollout.Compare(s.answer, resp.Outputs, s.route.Plan.Rules.Mirror.Tolerance)
	resp.Release()
	if difference != "" {
		s.e.log.Debug("a copy was answered otherwise", "model", s.route.Plan.Name, "version", s.to, "request_id", s.request.ID,
			"difference", difference)
	}
	s.end(o, difference)
}

// endShadow lets go of the version that a copy was for.
func endShadow(r *infer.Request) {
	m := r.Owner.(*model.Model)
	if r.Abandoned {
		m.Abandon(false)
	}
	m.Unpin()
}
