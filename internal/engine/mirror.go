package engine

import (
	"context"
	"errors"
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

	e *Engine

	mu        sync.Mutex
	over      bool
	ending    bool // no more sequences
	queues    map[*rollout.Live]*copyQueue
	sequences map[*rollout.Live]*mirroredSequences
}

// copyQueue has the copies of one model that belong to no sequence.
type copyQueue struct {
	running int
	waiting []*requestCopy // Engine.copy lets no more come than the rules allow
}

func (x *mirrors) open(e *Engine) {
	x.ctx, x.end = context.WithCancel(context.Background())
	x.e, x.queues, x.sequences = e, map[*rollout.Live]*copyQueue{}, map[*rollout.Live]*mirroredSequences{}
}

// stop ends the copies, those that wait too.
func (x *mirrors) stop() {
	x.end()
	x.mu.Lock()
	x.over = true
	var left []*requestCopy
	for _, queue := range x.queues {
		left = append(left, queue.waiting...)
		queue.waiting = nil
	}
	x.mu.Unlock()
	for _, s := range left {
		s.giveUp(rollout.Dropped)
	}
}

// wait waits for the copies that run.
func (x *mirrors) wait() { x.work.Wait() }

// add runs a copy now or when its turn comes.
func (x *mirrors) add(s *requestCopy) {
	if !x.enqueue(s) {
		s.giveUp(rollout.Dropped)
	}
}

func (x *mirrors) enqueue(s *requestCopy) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over:
		return false
	case s.of != nil:
		return x.followLocked(s)
	}
	queue := x.queues[s.route.Live]
	if queue == nil {
		queue = &copyQueue{}
		x.queues[s.route.Live] = queue
	}
	if queue.running >= s.route.Plan.Rules.Mirror.Concurrency {
		queue.waiting = append(queue.waiting, s)
		return true
	}
	queue.running++
	x.work.Go(func() {
		for s := s; s != nil; s = x.next(s.route.Live, queue) {
			s.run()
		}
	})
	return true
}

func (x *mirrors) next(of *rollout.Live, queue *copyQueue) *requestCopy {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(queue.waiting) == 0 {
		if queue.running--; queue.running == 0 {
			delete(x.queues, of)
		}
		return nil
	}
	s := queue.waiting[0]
	queue.waiting[0] = nil
	queue.waiting = queue.waiting[1:]
	return s
}

// requestCopy is the copy of one request.
type requestCopy struct {
	e       *Engine
	route   *rollout.Route
	to      int64
	of      *copiedSequence // the sequence that it belongs to; nil for none
	ends    bool            // its request is the last one of that
	once    bool            // the client's model answers exactly once
	request backend.Request
	bytes   int64 // on the ledger
	answers [][]tensor.Tensor
	over    bool // nothing more is to be seen of the client's request
	counted sync.Once
	ended   sync.Once
}

// copy makes the copy of a request, if the rules want one and there is room. It runs
// once the client has its answer.
func (e *Engine) copy(r *infer.Request) *requestCopy {
	plan, live := r.Route.Plan, r.Route.Live
	s := &requestCopy{e: e, route: r.Route, to: plan.MirrorTo, once: !r.Owner.(*model.Model).Config().Decoupled}
	if plan.Passed && !r.Correlation.IsZero() {
		if !e.mirrors.join(s, r) {
			return nil
		}
	} else if plan.MirrorTo == 0 || !plan.Mirrors(r.ModelVersion, rand.Uint64()) { //nolint:gosec // a share is no secret
		return nil
	}
	rules := plan.Rules.Mirror
	if live.Held.Add(1) > int64(rules.Concurrency+rules.Queue) || !s.take(r.Inputs, &s.request.Inputs, texts(r)) {
		s.giveUp(rollout.Dropped)
		return nil
	}
	q := &s.request
	q.ID, q.Priority = strings.Clone(r.ID), r.Priority
	if q.Correlation, q.Flags = cloned(r.Correlation), r.Flags; s.of != nil {
		q.Correlation = s.of.id
	}
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

const (
	// mirrorShare is the part of the ledger that copies leave to clients: a copy is made
	// only where one in mirrorShare of all bytes stays free.
	mirrorShare = 2
	// answerBytes is what an answer counts besides its data.
	answerBytes = 256
)

// texts is how long the texts of a request are, which its copy has of its own: an id
// may be as long as a body.
func texts(r *infer.Request) int64 {
	n := len(r.ID) + len(r.Correlation.Text)
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
func (s *requestCopy) take(from []tensor.Tensor, into *[]tensor.Tensor, more int64) bool {
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
func (s *requestCopy) see(r *infer.Request, resp *backend.Response, final bool) {
	if s.over {
		return
	}
	if resp != nil {
		s.answers = append(s.answers, nil)
		switch {
		case resp.Err != nil || r.Cancelled() || s.once && len(s.answers) > 1:
			s.lose(rollout.Skipped)
		case !s.take(resp.Outputs, &s.answers[len(s.answers)-1], s.weight()):
			s.lose(rollout.Dropped)
		}
	}
	switch {
	case !final || s.over:
	case r.Cancelled() || s.once && len(s.answers) != 1:
		s.lose(rollout.Skipped)
	default:
		s.over = true
		s.e.mirrors.add(s)
	}
}

// weight is what the next answer counts besides its data. The only answer of a request
// counts nothing: it is a part of the copy.
func (s *requestCopy) weight() int64 {
	if s.once {
		return 0
	}
	return answerBytes
}

// lose ends a copy at once when there is nothing to compare it with: the stream of the
// client may go on for long.
func (s *requestCopy) lose(o rollout.Outcome) {
	s.over = true
	s.giveUp(o)
}

// giveUp ends a copy that is not sent, once.
func (s *requestCopy) giveUp(o rollout.Outcome) { s.finish(o, "") }

func (s *requestCopy) finish(o rollout.Outcome, difference string) {
	s.ended.Do(func() {
		for _, list := range append(s.answers, s.request.Inputs) {
			for i := range list {
				list[i].Release()
			}
		}
		s.e.admission.ledger.Give(ledger.In, s.bytes)
		s.route.Live.Held.Add(-1)
		s.count(o, difference)
		if s.of != nil {
			s.e.mirrors.copyEnded(s, o)
		}
	})
}

// count counts what has become of a copy, once.
func (s *requestCopy) count(o rollout.Outcome, difference string) {
	s.counted.Do(func() { s.route.Live.Mirrored(s.to, o, difference) })
}

// run sends the copy, waits for its answers and compares them.
func (s *requestCopy) run() {
	m := s.e.life.Pin(s.route.Plan.Name, s.to)
	if m == nil { // it has left while the copy waited
		s.giveUp(rollout.Dropped)
		return
	}
	ctx, cancel := context.WithTimeout(s.e.mirrors.ctx, s.route.Plan.Rules.Mirror.Timeout)
	defer cancel()
	sink := &comparison{s: s, enough: cancel, done: make(chan struct{})}
	r := infer.New(sink, endCopy)
	inner := r.Responder
	r.Request = s.request
	r.Responder, r.Ctx = inner, ctx
	r.Inputs = append([]tensor.Tensor(nil), s.request.Inputs...)
	for i := range r.Inputs {
		r.Inputs[i].Retain()
	}
	r.Owner, r.ModelName, r.ModelVersion, r.Internal = m, m.Config().Name, m.Version(), true
	r.Background, r.Detached = true, true // its timeout is watched here
	r.OnAbandoned = s.e.abandonInternal
	if d := m.Config().Dynamic; d != nil && d.PriorityLevels > 0 {
		r.Priority = d.PriorityLevels // behind those that somebody waits for
	}
	r.Times.Receive = backend.Now()
	r.Times.Start = r.Times.Receive
	if err := s.e.Infer(r); err != nil {
		s.finish(rollout.Failed, "the copy failed: "+err.Error())
		return
	}
	late := s.await(ctx, sink)
	o, difference := sink.result()
	if late != "" {
		o, difference = rollout.Failed, late
	}
	if o == rollout.Failed && s.e.mirrors.ctx.Err() != nil {
		o, difference = rollout.Dropped, ""
	}
	if difference != "" {
		s.e.log.Debug("a copy was answered otherwise", "model", s.route.Plan.Name, "version", s.to, "request_id", s.request.ID,
			"difference", difference)
	}
	s.finish(o, difference)
}

// await waits until a copy is done, and returns what there is to say of one that has taken
// too long. It counts that at once: the model may not heed that it is to end.
func (s *requestCopy) await(ctx context.Context, sink *comparison) (late string) {
	select {
	case <-sink.done:
		return ""
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		late = "the copy failed: it has taken longer than " + s.route.Plan.Rules.Mirror.Timeout.String()
		s.count(rollout.Failed, late)
	}
	<-sink.done
	return late
}

// endCopy lets go of the version that a copy was for.
func endCopy(r *infer.Request) {
	m := r.Owner.(*model.Model)
	if r.Abandoned {
		m.Abandon(false)
	}
	m.Unpin()
}
