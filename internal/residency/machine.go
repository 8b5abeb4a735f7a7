package residency

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nesoserve/neso/internal/setting"
)

// Settings are what the operator says.
type Settings struct {
	// Limit is how many bytes all models may have together; 0 for any number.
	Limit int64
	// Loads is how many loads may run at the same time. Those that a model waits for
	// do not count: its own load may be one of them.
	Loads int
	// Waiting is how many requests may wait at the same time, but for those of models,
	// which are bounded by the requests that these work on.
	Waiting int
	// LeastStay is how long a model stays at least once it is in, so that models
	// that do not fit together do not drive each other out for every request.
	LeastStay time.Duration
	// Patience is how long a load or a read counts among Loads, whether it has ended or
	// not: one that hangs would keep all other models out. 0 is for ever.
	Patience time.Duration
	// Words are what texts call settings.
	Words setting.Words
}

// Traits are what the configuration of a model says.
type Traits struct {
	// Pin keeps it in once it is in.
	Pin bool
	// Idle is after how long without requests it leaves; 0 for never.
	Idle time.Duration
	// Priority: models of a lower one leave first and are loaded last.
	Priority int
}

// State is the state of a model.
type State uint8

// The states. A model that is Loading or Leaving has its memory in part, and counts
// with all of it.
const (
	Out State = iota
	Loading
	In
	Leaving
	states
)

// String returns the word of the metrics.
func (s State) String() string { return [...]string{"out", "loading", "in", "leaving"}[s] }

// moves holds the allowed moves: moves[from][to].
var moves = [states][states]bool{
	Out:     {Loading: true, In: true}, // In: somebody else has loaded it
	Loading: {In: true, Out: true},
	In:      {Leaving: true, Out: true}, // Out: somebody else has unloaded it
	Leaving: {Out: true, In: true},      // In: it was not let go
}

// Reason says why a model is in, or is not.
type Reason uint8

// The reasons.
const (
	Never      Reason = iota // not loaded so far
	Demanded                 // a request wanted it
	PartOf                   // it is a step of an ensemble that a request wanted
	Told                     // loaded at the start, or by the API
	ForMemory                // evicted for the memory of others
	ForIdle                  // evicted since nobody has asked for long
	TakenOut                 // unloaded by the API
	LoadFailed               // its last load has failed
	reasons
)

// String is the text of the repository index.
func (r Reason) String() string {
	return [...]string{
		"not loaded yet", "loaded on demand", "loaded on demand as a step of an ensemble", "loaded by request",
		"evicted: memory was needed", "evicted: idle", "unloaded", "load failed",
	}[r]
}

// entry is what is known of one model.
type entry struct {
	name  string
	state State
	why   Reason
	bytes int64 // as measured last, else as expected
	// measured says that it has been in, and bytes is what it had then; files is the size
	// of its files, which stands for what a backend does not tell.
	measured bool
	files    int64
	read     bool // parts, traits and, before the first load, bytes are known
	parts    []string
	traits   Traits
	fixed    bool  // it could not be brought back as it is
	taken    bool  // somebody has unloaded it: requests do not bring it back
	since    int64 // when it came in
	// doomed is one that leaves as soon as the ensembles that use it have.
	doomed bool
	left   int64 // when it was doomed, or began to leave
	// arriving counts those who have been told that it is in, and have not come yet.
	arriving int

	failures int // since the last load that did not fail
	failure  error
	retry    int64 // when it is tried again
}

func (m *Machine) move(e *entry, to State, why Reason) {
	if !moves[e.state][to] {
		panic("residency: move from " + e.state.String() + " to " + to.String())
	}
	e.state, e.why = to, why
	if to != In {
		e.doomed = false
	}
	if to == Out {
		delete(m.here, e.name)
	} else {
		m.here[e.name] = e
	}
}

// want is a model that requests wait for.
type want struct {
	name    string
	since   int64
	reading bool
	// blocked is since when models that have not left keep it out; 0 for not so far.
	blocked int64
	// waiters are the requests, with the names of the models that have sent them;
	// empty for one from outside.
	waiters map[uint64]string
}

// inside reports whether a model waits.
func (w *want) inside() bool {
	for _, caller := range w.waiters {
		if caller != "" {
			return true
		}
	}
	return false
}

// load is a load that runs: what it loads besides its model are steps of an ensemble.
type load struct {
	members []string
	inside  bool
	began   int64
}

// Counts are what has happened so far.
type Counts struct {
	Loads, Failures                           uint64
	EvictedForMemory, EvictedForIdle          uint64
	RefusedFull, RefusedMemory, RefusedFailed uint64
}

// Machine is the state. The zero value is of no use; see New.
type Machine struct {
	o      Settings
	models map[string]*entry
	// here are those of them that are not out: a step looks at these alone, however many
	// models there are.
	here map[string]*entry
	// ensembles are the models with parts.
	ensembles map[string]*entry
	wants     map[string]*want
	loads     map[string]*load
	reads     map[string]int64 // when those began that run and count against Settings.Loads
	waiting   int              // requests from outside that wait
	counts    Counts
}

// New returns a machine with no model in.
func New(o Settings) *Machine {
	o.Loads, o.Waiting = max(1, o.Loads), max(1, o.Waiting)
	return &Machine{
		o: o, models: map[string]*entry{}, here: map[string]*entry{}, ensembles: map[string]*entry{},
		wants: map[string]*want{}, loads: map[string]*load{}, reads: map[string]int64{},
	}
}

// ErrTakenOut says that somebody has unloaded the model, and it is not to be loaded
// for requests.
var ErrTakenOut = errors.New("the model has been unloaded")

func (m *Machine) entry(name string) *entry {
	e := m.models[name]
	if e == nil {
		e = &entry{name: name}
		m.models[name] = e
	}
	return e
}

func (m *Machine) compose(e *entry, parts []string) {
	e.parts = parts
	if len(parts) > 0 {
		m.ensembles[e.name] = e
	} else {
		delete(m.ensembles, e.name)
	}
}

// Want notes that the request id waits for a model that is there; caller is the model
// that has sent it, or empty. It returns why it may not wait.
func (m *Machine) Want(now int64, id uint64, name, caller string) error {
	e := m.entry(name)
	switch {
	case e.taken && e.state == Out:
		return ErrTakenOut
	case e.state == Out && e.failure != nil && now < e.retry:
		m.counts.RefusedFailed++
		return m.failed(e, now)
	case caller == "" && m.waiting >= m.o.Waiting:
		m.counts.RefusedFull++
		return m.full(name)
	}
	m.wait(now, id, name, caller)
	return nil
}

// Ask is Want for somebody who has been told to load the model: whatever keeps it
// out, and however many wait.
func (m *Machine) Ask(now int64, id uint64, name string) {
	m.Release(name)
	m.wait(now, id, name, "")
}

// Release undoes what keeps a model from being loaded: that it was taken out, or that
// a load has failed not long ago.
func (m *Machine) Release(name string) {
	e := m.entry(name)
	if e.taken = false; e.why == TakenOut {
		e.why = Never
	}
	e.failures, e.failure, e.retry, e.read = 0, nil, 0, e.read && e.failure == nil
}

func (m *Machine) wait(now int64, id uint64, name, caller string) {
	w := m.wants[name]
	if w == nil {
		w = &want{name: name, since: now, waiters: map[uint64]string{}}
		m.wants[name] = w
	}
	w.waiters[id] = caller
	if caller == "" {
		m.waiting++
	}
}

// Leave notes that a request waits no longer. A load that has begun goes on.
func (m *Machine) Leave(id uint64, name string) {
	w := m.wants[name]
	if w == nil {
		return
	}
	caller, there := w.waiters[id]
	if !there {
		return
	}
	delete(w.waiters, id)
	if caller == "" {
		m.waiting--
	}
	if len(w.waiters) == 0 && !w.reading {
		delete(m.wants, name)
	}
}

// Came notes that one who was told that a model is in has it, or does not want it any
// more. It is not evicted before: else it could leave between the two, again and again.
func (m *Machine) Came(name string) { m.entry(name).arriving-- }

// Sketch is what reading a model without loading it has shown.
type Sketch struct {
	Name   string
	Parts  []string
	Traits Traits
	// Bytes is what it is expected to need.
	Bytes int64
}

// Read ends a read that Step has asked for: of the model and of the parts of it that
// are not known.
func (m *Machine) Read(name string, sketches []Sketch) {
	delete(m.reads, name)
	if w := m.wants[name]; w != nil && w.reading {
		w.reading = false
		if len(w.waiters) == 0 {
			delete(m.wants, name)
		}
	}
	m.entry(name).read = true
	for _, s := range sketches {
		e := m.entry(s.Name)
		e.read = true
		if e.state == Out {
			m.compose(e, s.Parts)
			e.traits = s.Traits
			e.files = s.Bytes
			if !e.measured { // what it had last says more
				e.bytes = s.Bytes
			}
		}
	}
}

// Loaded ends a load that Step has asked for.
func (m *Machine) Loaded(now int64, name string) {
	m.counts.Loads++
	m.end(now, name, func(string) bool { return true })
	e := m.entry(name)
	e.failures, e.failure, e.retry = 0, nil, 0
}

// Failed ends one that has failed; in says which of the models that it was to load
// are there all the same. Who waits is told at the next Step.
func (m *Machine) Failed(now int64, name string, err error, in func(name string) bool) {
	m.counts.Failures++
	m.end(now, name, in)
	e := m.entry(name)
	if e.state != Out || e.taken {
		return
	}
	e.why, e.failure, e.read = LoadFailed, err, false
	e.retry = now + int64(pause(e.failures))
	e.failures++
}

// The pause before a failed load is tried again doubles up to a minute.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

func pause(failures int) time.Duration { return min(firstPause<<min(failures, 10), mostPause) }

func (m *Machine) end(now int64, name string, in func(name string) bool) {
	l := m.loads[name]
	if l == nil {
		return
	}
	delete(m.loads, name)
	for _, member := range l.members {
		e := m.entry(member)
		if e.state != Loading {
			continue
		}
		if !in(member) {
			m.move(e, Out, e.outside())
			continue
		}
		why := Demanded
		if member != name {
			why = PartOf
		}
		m.move(e, In, why)
		e.since = now
	}
}

// Unloaded ends an eviction that Step has asked for: the memory is given back.
func (m *Machine) Unloaded(name string) {
	e := m.entry(name)
	if e.state != Leaving {
		return
	}
	if e.why == ForIdle {
		m.counts.EvictedForIdle++
	} else {
		m.counts.EvictedForMemory++
	}
	m.move(e, Out, e.why)
}

// Kept ends one that was not possible just now.
func (m *Machine) Kept(name string) {
	if e := m.entry(name); e.state == Leaving {
		m.move(e, In, Demanded)
	}
}

// TakeOut notes that somebody has unloaded a model, or is about to, and that requests are
// not to bring it back until Release.
func (m *Machine) TakeOut(name string) {
	e := m.entry(name)
	if e.taken = true; e.state == In {
		m.move(e, Out, TakenOut)
	}
	e.why = TakenOut
}

// outside is why a model is out that was not evicted.
func (e *entry) outside() Reason {
	if e.taken {
		return TakenOut
	}
	return Never
}

// Resident is a model that is in, whoever has loaded it.
type Resident struct {
	Name   string
	Parts  []string
	Traits Traits
	// Fixed is one that could not be brought back as it is: a program has bound it, or a
	// load request has brought its configuration or files.
	Fixed bool
}

// Sync compares with all models that are in, and takes over what others have loaded
// and unloaded.
func (m *Machine) Sync(now int64, in []Resident) {
	there := make(map[string]bool, len(in))
	for i := range in {
		r := &in[i]
		there[r.Name] = true
		e := m.entry(r.Name)
		if e.state == Out {
			m.move(e, In, Told)
			e.since = now
			e.failures, e.failure, e.retry = 0, nil, 0
		}
		if e.state == In {
			m.compose(e, r.Parts)
			e.traits, e.fixed, e.read = r.Traits, r.Fixed, true
		}
	}
	for _, e := range m.here {
		if e.state == In && !there[e.name] {
			m.move(e, Out, e.outside())
		}
	}
}

// Forget drops what is known of models that are out and that nobody waits for, unless
// keep says otherwise.
func (m *Machine) Forget(keep func(name string) bool) {
	for name, e := range m.models {
		if e.state == Out && !e.taken && e.arriving == 0 && m.wants[name] == nil && !keep(name) {
			delete(m.models, name)
			delete(m.ensembles, name)
		}
	}
}

// order returns the wants in the order of their loads: those that a model waits for,
// then by priority, then who came first.
func (m *Machine) order() []*want {
	all := slices.Collect(maps.Values(m.wants))
	rank := func(w *want) int {
		if w.inside() {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *want) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)), cmp.Compare(m.entry(b.name).traits.Priority, m.entry(a.name).traits.Priority),
			cmp.Compare(a.since, b.since), cmp.Compare(a.name, b.name))
	})
	return all
}
