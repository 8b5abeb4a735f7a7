package ensemble

// Passed is what has gone along an edge of the graph since the version was loaded.
type Passed struct {
	From, To int    // steps; -1 is the request, and the response
	Tensor   string // of the ensemble
	Count    uint64 // of requests to the step To, or of responses with the tensor
}

// Edges returns what has gone along each edge. Requests count when they have ended,
// those of an ensemble with decoupled steps with each response that a step gives. It
// is safe for concurrent use.
func (s *Scheduler) Edges() []Passed {
	g := s.g
	all := make([]Passed, 0, g.edges)
	for i := range g.steps {
		for _, e := range g.steps[i].in {
			all = append(all, Passed{From: g.tensors[e.tensor].from, To: i, Tensor: g.tensors[e.tensor].name})
		}
	}
	for _, o := range g.outputs {
		all = append(all, Passed{From: g.tensors[o.tensor].from, To: -1, Tensor: g.tensors[o.tensor].name})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		all[i].Count = s.passed[i]
	}
	return all
}

// number gives the edges their numbers: those into the steps in their order, then
// those into the response.
func (g *Graph) number() {
	for i := range g.steps {
		g.steps[i].first = g.edges
		g.edges += len(g.steps[i].in)
	}
	g.last = g.edges
	g.edges += len(g.outputs)
}

// leave counts the outputs of a response.
func (x *run) leave() {
	for _, o := range x.flow.n.outputs {
		x.passed[x.s.g.last+o]++
	}
}

// tallyLocked adds what has gone along the edges of a run to that of all. It costs
// requests no lock of its own, nor an atomic.
func (s *Scheduler) tallyLocked(x *run) {
	for i, n := range x.passed {
		s.passed[i] += uint64(n)
	}
	clear(x.passed)
}
