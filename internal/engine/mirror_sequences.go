package engine

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/rollout"
)

// mirroredSequences are those of one model. A sequence is mirrored as a whole, or not at
// all: whether it is, is settled by its first request. Its copies go, one after the other
// in the order in which the client was answered, to a sequence of the other version that
// has a state and an id of its own: clients of that version may have one of the same id.
// Once a copy has failed, or was not sent, what follows compares with nothing: then the
// sequence ends there.
type mirroredSequences struct {
	open  map[clientSequence]*copiedSequence // until its last request has come
	count int                                // with those of which copies are left
}

// clientSequence is a sequence as its client knows it: another version may have one of
// the same id.
type clientSequence struct {
	version int64
	id      backend.CorrelationID
}

// copiedSequence is a sequence that is mirrored.
type copiedSequence struct {
	client clientSequence
	id     backend.CorrelationID // in the version that is mirrored to
	route  *rollout.Route
	to     int64
	idle   time.Duration // after which the client's sequence has ended
	last   int64         // when its last request came
	held   int           // copies that have not ended
	broken bool          // no further copies are sent
	over   bool          // it counts no more

	running bool
	waiting []*requestCopy // at most as many as the rules let there be
}

// idleEnsemble is how long a sequence of an ensemble may be without a request before it
// counts as ended: its steps may each have another limit.
const idleEnsemble = time.Minute

// join makes a copy part of the sequence of its request, and reports whether there is to
// be a copy at all.
func (x *mirrors) join(s *requestCopy, r *infer.Request) bool {
	m, plan := r.Owner.(*model.Model), r.Route.Plan
	start, last := r.Flags&backend.SequenceStart != 0, r.Flags&backend.SequenceEnd != 0
	var begun *copiedSequence
	if start && plan.MirrorTo != 0 && plan.Mirrors(r.ModelVersion, rand.Uint64()) { //nolint:gosec // a share is no secret
		begun = &copiedSequence{
			client: clientSequence{r.ModelVersion, cloned(r.Correlation)}, id: x.e.freeID(r.Correlation, plan.Name, plan.MirrorTo),
			route: r.Route, to: plan.MirrorTo, idle: idleEnsemble,
		}
		if c := m.Config().Sequence; c != nil {
			begun.idle, last = c.MaxIdle, last || c.Iterative
		}
	}
	now := backend.Now()
	x.mu.Lock()
	of := x.sequences[r.Route.Live]
	if of == nil {
		of = &mirroredSequences{open: map[clientSequence]*copiedSequence{}}
	}
	q, gone := of.open[clientSequence{r.ModelVersion, r.Correlation}], []*copiedSequence(nil)
	if q != nil && (start || q.to != plan.MirrorTo) {
		gone, q = append(gone, x.breakLocked(q)), nil
	}
	room := true
	if begun != nil {
		if most := plan.Rules.Mirror.Concurrency; of.count >= most {
			gone = append(gone, x.breakIdleLocked(of, now)...)
			room = of.count < most
		}
		if room = room && !x.ending; room {
			q = begun
			of.open[q.client] = q
			of.count++
			x.sequences[r.Route.Live] = of
		}
	}
	if q != nil {
		q.last = now
		q.held++
		s.of, s.to, s.ends = q, q.to, last
		if last {
			delete(of.open, q.client) // the next one of this id is another sequence
		}
	}
	x.mu.Unlock()
	x.dispose(gone)
	if !room {
		r.Route.Live.Mirrored(s.to, rollout.Dropped, "")
	}
	return q != nil
}

// breakIdleLocked breaks the sequences of which no request has come for longer than they may be idle.
func (x *mirrors) breakIdleLocked(of *mirroredSequences, now int64) (gone []*copiedSequence) {
	for _, q := range of.open {
		if q.held == 0 && now-q.last > int64(q.idle) {
			gone = append(gone, x.breakLocked(q))
		}
	}
	return gone
}

// followLocked sends a copy behind the others of its sequence.
func (x *mirrors) followLocked(s *requestCopy) bool {
	q := s.of
	if q.broken {
		return false
	}
	q.waiting = append(q.waiting, s)
	if !q.running {
		q.running = true
		x.work.Go(func() {
			for s := x.nextOf(q); s != nil; s = x.nextOf(q) {
				s.run()
			}
		})
	}
	return true
}

func (x *mirrors) nextOf(q *copiedSequence) *requestCopy {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running = false
		return nil
	}
	s := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return s
}

// copyEnded takes the end of a copy of a sequence.
func (x *mirrors) copyEnded(s *requestCopy, o rollout.Outcome) {
	x.mu.Lock()
	q, gone := s.of, []*copiedSequence(nil)
	q.held--
	switch {
	case o >= rollout.Failed && !q.broken:
		gone = append(gone, x.breakLocked(q))
	case q.broken:
		gone = append(gone, q) // this one may have begun the sequence after it was ended
	case s.ends:
		x.forgetLocked(q)
	}
	x.mu.Unlock()
	x.dispose(gone)
}

// breakLocked has no further copies sent of a sequence. dispose does the rest.
func (x *mirrors) breakLocked(q *copiedSequence) *copiedSequence {
	q.broken = true
	x.forgetLocked(q)
	return q
}

func (x *mirrors) forgetLocked(q *copiedSequence) {
	of := x.sequences[q.route.Live]
	if q.over {
		return
	}
	q.over = true
	if of.open[q.client] == q {
		delete(of.open, q.client)
	}
	if of.count--; of.count == 0 {
		delete(x.sequences, q.route.Live)
	}
}

// dispose drops the waiting copies of broken sequences, and ends these sequences in the
// other version, whose slots they hold.
func (x *mirrors) dispose(broken []*copiedSequence) {
	for _, q := range broken {
		x.mu.Lock()
		waiting := q.waiting
		q.waiting = nil
		x.mu.Unlock()
		for _, s := range waiting {
			s.giveUp(rollout.Dropped)
		}
		if m := x.e.life.Pin(q.route.Plan.Name, q.to); m != nil {
			x.e.endSequence(m, q.id)
			m.Unpin()
		}
	}
}

// endSequences ends the sequences of copies: those of clients may go on while the server
// stops, and it waits for all that are open.
func (x *mirrors) endSequences() {
	x.mu.Lock()
	x.ending = true
	var gone []*copiedSequence
	for _, of := range x.sequences {
		for _, q := range of.open {
			gone = append(gone, x.breakLocked(q))
		}
	}
	x.mu.Unlock()
	x.dispose(gone)
}

// endSequence ends a sequence in a version, or in the steps of an ensemble.
func (e *Engine) endSequence(m *model.Model, id backend.CorrelationID) {
	m.EndSequence(id)
	if c := m.Config().Ensemble; c != nil {
		for i := range c.Steps {
			for _, part := range e.life.Lookup(c.Steps[i].Model) {
				e.endSequence(part, id)
			}
		}
	}
}

// freeID makes an id for a sequence of copies, of the kind and the width of the client's:
// a model may take no others.
func (e *Engine) freeID(like backend.CorrelationID, name string, version int64) backend.CorrelationID {
	const narrow = 1 << 31
	m := e.life.Find(name, version)
	for {
		id := backend.CorrelationID{Number: narrow/2 | rand.Uint64N(narrow/2)} //nolint:gosec // no secret
		switch {
		case like.Text != "":
			id = backend.CorrelationID{Text: "copy-" + strconv.FormatUint(rand.Uint64(), 16)} //nolint:gosec // no secret
		case like.Number >= narrow:
			id.Number = 1<<62 | rand.Uint64N(1<<62) //nolint:gosec // no secret
		}
		if m == nil || !m.HoldsSequence(id) {
			return id
		}
	}
}

func cloned(id backend.CorrelationID) backend.CorrelationID {
	return backend.CorrelationID{Number: id.Number, Text: strings.Clone(id.Text)}
}
