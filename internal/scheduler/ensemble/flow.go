package ensemble

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// flow is the state of one request: which tensors are there, which steps run
// and which can start. It decides only; its caller starts steps, delivers
// responses and tells what happened.
type flow struct {
	g *Graph
	n *need

	root    *scope // of the request itself, label 0
	running int    // steps that are ready or in flight, in all scopes
	ready   []start
	head    int // of ready
	// out are the scopes whose outputs are the ensemble's, in the order of the
	// responses they were made by, until they are answered.
	out []*scope
	err *backend.Error // first failure

	all  []*scope // every scope ever made, also those of earlier requests
	free []*scope
}

// start is a step that can start.
type start struct {
	step  int
	scope *scope
}

// scope holds the tensors of one label: those of the request, or those that
// follow from one response of a decoupled step.
type scope struct {
	label    int
	values   []value // by tensor
	waiting  []int   // by step: inputs that are not known yet
	missing  int     // outputs of the ensemble that are not known yet
	running  int     // steps that are ready or in flight
	answered bool    // its outputs were given, or it has none to give
	alive    bool
}

// value is a tensor while it is alive.
type value struct {
	tensor.Tensor
	left int // readers to come; the memory is held until the last one
	sequence
}

// sequence is the sequence that a step's response has put a tensor into; it
// counts for what is made of the tensor in place of the request's.
type sequence struct {
	set   bool
	id    backend.CorrelationID
	flags backend.Flags
}

// begin makes the request's own scope with its inputs, of which the flow takes
// references; one that is not given is known to be missing.
func (f *flow) begin(g *Graph, n *need, inputs []tensor.Tensor) {
	f.g, f.n = g, n
	s := f.open(0)
	f.root = s
	for i := range g.inputs {
		in := &g.inputs[i]
		at := slices.IndexFunc(inputs, func(t tensor.Tensor) bool { return t.Name == in.name })
		if uses := n.uses[in.tensor]; at >= 0 && uses > 0 {
			inputs[at].Retain()
			s.values[in.tensor] = value{Tensor: inputs[at], left: uses}
		}
		f.known(s, in.tensor)
	}
}

// open makes a scope in which nothing is known.
func (f *flow) open(label int) *scope {
	var s *scope
	if n := len(f.free); n > 0 {
		s, f.free = f.free[n-1], f.free[:n-1]
	} else {
		s = &scope{values: make([]value, len(f.g.tensors)), waiting: make([]int, len(f.g.steps))}
		f.all = append(f.all, s)
	}
	s.label, s.running, s.alive = label, 0, true
	for i := range f.g.steps {
		s.waiting[i] = len(f.g.steps[i].in)
	}
	s.missing, s.answered = len(f.n.outputs), true
	if label != 0 && label == f.g.outLabel {
		s.answered = false
		f.out = append(f.out, s)
	}
	return s
}

// known says that a tensor is there, or never will be: what waited for nothing
// else can start. A step that needs what is missing is refused by its model.
func (f *flow) known(s *scope, t int) {
	for _, o := range f.n.outputs {
		if s.label == f.g.outLabel && f.g.outputs[o].tensor == t {
			s.missing--
			break
		}
	}
	for _, to := range f.g.tensors[t].to {
		if s.waiting[to]--; s.waiting[to] == 0 && f.n.steps[to] {
			f.ready = append(f.ready, start{to, s})
			s.running++
			f.running++
		}
	}
}

// next returns a step that can start, if there is one.
func (f *flow) next() (start, bool) {
	if f.head == len(f.ready) {
		f.ready, f.head = f.ready[:0], 0
		return start{}, false
	}
	s := f.ready[f.head]
	f.head++
	return s, true
}

// take returns an input of a step that starts, with a reference for the
// step, and whether there is one.
func (f *flow) take(s *scope, e edge) (tensor.Tensor, sequence, bool) {
	v := &s.values[e.tensor]
	if v.left == 0 {
		return tensor.Tensor{}, sequence{}, false
	}
	t, q := v.Tensor, v.sequence
	if v.left--; v.left > 0 {
		t.Retain()
	} else {
		*v = value{}
	}
	return t, q, true
}

// put takes over the outputs of a step's response. It returns the scope that a
// decoupled step's response has opened, or nil.
func (f *flow) put(at start, outputs []tensor.Tensor, q sequence) *scope {
	st := &f.g.steps[at.step]
	s, opened := at.scope, (*scope)(nil)
	if st.makes != st.label && f.err == nil {
		s = f.open(st.makes)
		opened = s
	}
	for i := range outputs {
		t := outputs[i]
		e := slices.IndexFunc(st.out, func(e edge) bool { return e.name == t.Name })
		if e < 0 || f.err != nil || f.n.uses[st.out[e].tensor] == 0 || s.values[st.out[e].tensor].left > 0 {
			t.Release()
			continue
		}
		to := st.out[e].tensor
		s.values[to] = value{Tensor: t, left: f.n.uses[to], sequence: q}
		f.known(s, to)
	}
	if f.err != nil || st.makes != st.label && opened == nil {
		return opened
	}
	for _, e := range st.out {
		if f.n.uses[e.tensor] > 0 && !slices.ContainsFunc(outputs, func(t tensor.Tensor) bool { return t.Name == e.name }) {
			f.known(s, e.tensor)
		}
	}
	return opened
}

// end says that a step has ended: its final response is there, or it has never
// begun.
func (f *flow) end(at start) {
	at.scope.running--
	f.running--
}

// fail keeps the first failure, and drops what could still start.
func (f *flow) fail(err *backend.Error) {
	if f.err == nil {
		f.err = err
	}
	for s, ok := f.next(); ok; s, ok = f.next() {
		f.end(s)
	}
}

// answer returns the next scope of a decoupled ensemble that is over: its outputs
// are a response, but for one with outputs that are missing still, because a step
// has ended without an answer. Responses keep the order of what they were made
// from.
func (f *flow) answer() *scope {
	if f.g.outLabel == 0 || len(f.out) == 0 || f.err != nil {
		return nil
	}
	s := f.out[0]
	if s.missing > 0 && s.running > 0 {
		return nil
	}
	f.out = slices.Delete(f.out, 0, 1)
	s.answered = true
	return s
}

// outputs appends the requested outputs that are in a scope, with references
// for the response.
func (f *flow) outputs(s *scope, to []tensor.Tensor) ([]tensor.Tensor, sequence) {
	var q sequence
	for _, o := range f.n.outputs {
		out := &f.g.outputs[o]
		t, set, ok := f.take(s, edge{tensor: out.tensor})
		if !ok {
			continue
		}
		if set.set {
			q = set
		}
		t.Name, t.Shape = out.name, fit(t.Shape, out.rank)
		to = append(to, t)
	}
	return to, q
}

// retire releases a scope of which nothing is needed any more; it reports
// whether it did.
func (f *flow) retire(s *scope) bool {
	if !s.alive || s.running > 0 || !s.answered || s.label == 0 {
		return false
	}
	f.drop(s)
	return true
}

func (f *flow) drop(s *scope) {
	for i := range s.values {
		if s.values[i].left > 0 {
			s.values[i].Release()
			s.values[i] = value{}
		}
	}
	s.alive = false
	f.free = append(f.free, s)
}

// finish releases all that is left, so that the flow can begin again.
func (f *flow) finish() {
	for _, s := range f.all {
		if s.alive {
			f.drop(s)
		}
	}
	f.out, f.err, f.n, f.root = f.out[:0], nil, nil, nil
}

// done reports whether the request can be answered for good.
func (f *flow) done() bool { return f.running == 0 }

// fit adds or takes away a leading dimension of 1, where a model that batches
// meets one that does not. What does not fit stays: the checks of the model
// will name it.
func fit(s tensor.Shape, rank int) tensor.Shape {
	switch {
	case len(s) == rank+1 && s[0] == 1:
		return s[1:]
	case len(s)+1 == rank:
		return append(tensor.Shape{1}, s...)
	}
	return s
}
