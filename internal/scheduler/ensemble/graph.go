package ensemble

import (
	"slices"
	"sync"
)

// Graph is an ensemble that has been checked against the models of its steps.
// It is immutable and shared by all requests.
//
// Every tensor has a label: 0 for what exists once in a request, another one
// for what exists once per response of a decoupled step. A step's inputs all
// have one label, and so have the outputs of the ensemble; a decoupled step
// gives its outputs a label of their own.
type Graph struct {
	name     string
	steps    []step
	tensors  []node
	inputs   []ioTensor
	outputs  []ioTensor
	labels   int // how many there are, 0 included
	outLabel int
	inflight int   // max_inflight_requests; 0: no bound of its own
	all      *need // of a request for all outputs
	edges    int   // how many there are, into steps and into the response
	last     int   // number of the first edge into the response

	mu    sync.Mutex
	needs map[string]*need // of requests for some outputs
}

// step is one model in the graph.
type step struct {
	model   string
	version int64 // -1: the latest when the step starts
	in, out []edge
	first   int // number of the edge of in[0]
	label   int // of the inputs
	makes   int // label of the outputs: another than label for a decoupled step
	// unbound marks a decoupled step whose model, or one it is made of, is used
	// again further on: to hold it back until there is room could keep that model's
	// instances from making room.
	unbound bool
}

// edge ties an input or output of a step's model to a tensor.
type edge struct {
	name     string
	tensor   int
	optional bool // an input that the model can do without
}

// node is an ensemble tensor.
type node struct {
	name  string
	label int
	from  int   // step that writes it, -1 for an input of the ensemble
	to    []int // steps that read it, one entry for each input
}

// ioTensor is an input or output of the ensemble; rank is that of its shape,
// batch dimension included.
type ioTensor struct {
	name   string
	tensor int
	rank   int
}

// Decoupled reports whether a request may have any number of responses.
func (g *Graph) Decoupled() bool { return g.outLabel != 0 }

// Writer returns the step's model, its version (-1: the latest) and its output
// that an output of the ensemble comes from, if one does.
func (g *Graph) Writer(output string) (model string, version int64, of string) {
	for i := range g.outputs {
		if g.outputs[i].name != output {
			continue
		}
		t := g.outputs[i].tensor
		if g.tensors[t].from < 0 {
			break
		}
		s := &g.steps[g.tensors[t].from]
		for _, e := range s.out {
			if e.tensor == t {
				return s.model, s.version, e.name
			}
		}
	}
	return "", 0, ""
}

// Reader returns the model and version of a step that reads an input of the
// ensemble.
func (g *Graph) Reader() (model string, version int64) {
	for i := range g.inputs {
		if to := g.tensors[g.inputs[i].tensor].to; len(to) > 0 {
			return g.steps[to[0]].model, g.steps[to[0]].version
		}
	}
	return "", 0
}

// Steps calls f for each step, until it returns false.
func (g *Graph) Steps(f func(model string, version int64) bool) {
	for i := range g.steps {
		if !f(g.steps[i].model, g.steps[i].version) {
			return
		}
	}
}

// need is the part of a graph that a request needs: what does not lead to an
// output that was asked for does not run.
type need struct {
	steps   []bool
	uses    []int      // how often each tensor is read, as an output too
	request [][]string // outputs to ask of each step
	spare   []bool     // tensors that all who read them can do without
	spares  []int      // how many of the last of request are spare, for each step
	outputs []int      // indices of Graph.outputs
}

// maxNeeds bounds the sets of outputs that are remembered; others are worked
// out for each request.
const maxNeeds = 64

// need returns what a request for these outputs needs. They are outputs of the
// ensemble, as the model's checks have seen.
func (g *Graph) need(requested []string) *need {
	if len(requested) == len(g.outputs) {
		same := true
		for i := range requested {
			same = same && requested[i] == g.outputs[i].name
		}
		if same {
			return g.all
		}
	}
	wanted := make([]byte, len(g.outputs))
	for i := range g.outputs {
		if slices.Contains(requested, g.outputs[i].name) {
			wanted[i] = 1
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.needs[string(wanted)]; n != nil {
		return n
	}
	n := g.trace(wanted)
	if len(g.needs) < maxNeeds {
		if g.needs == nil {
			g.needs = map[string]*need{}
		}
		g.needs[string(wanted)] = n
	}
	return n
}

// trace follows the wanted outputs back to the inputs.
func (g *Graph) trace(wanted []byte) *need {
	n := &need{
		steps: make([]bool, len(g.steps)), uses: make([]int, len(g.tensors)), request: make([][]string, len(g.steps)),
		spare: make([]bool, len(g.tensors)), spares: make([]int, len(g.steps)),
	}
	for t := range n.spare {
		n.spare[t] = true
	}
	var back func(t int)
	back = func(t int) {
		n.uses[t]++
		s := g.tensors[t].from
		if s < 0 || n.steps[s] {
			return
		}
		n.steps[s] = true
		for _, e := range g.steps[s].in {
			n.spare[e.tensor] = n.spare[e.tensor] && e.optional
			back(e.tensor)
		}
	}
	for i := range g.outputs {
		if wanted[i] != 0 {
			n.outputs = append(n.outputs, i)
			n.spare[g.outputs[i].tensor] = false
			back(g.outputs[i].tensor)
		}
	}
	for s := range g.steps {
		if !n.steps[s] {
			continue
		}
		var names []string
		for _, spare := range []bool{false, true} {
			for _, e := range g.steps[s].out {
				if n.uses[e.tensor] > 0 && n.spare[e.tensor] == spare {
					names = append(names, e.name)
				}
			}
			if !spare {
				n.spares[s] = -len(names)
			}
		}
		n.spares[s] += len(names)
		n.request[s] = slices.Clip(names) // a model may append to it
	}
	return n
}
