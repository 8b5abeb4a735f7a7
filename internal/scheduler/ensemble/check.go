package ensemble

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// Lookup returns the configuration of a loaded model version, the latest for
// -1, or nil.
type Lookup func(model string, version int64) *modelconfig.Config

// NewGraph checks an ensemble against the models of its steps and makes its graph.
// The error names all faults, in the peer's words and order.
func NewGraph(c *modelconfig.Config, parts Lookup) (*Graph, error) {
	k := check(c, parts, nil)
	if len(k.faults) == 0 {
		k.connect()
	}
	if len(k.faults) > 0 {
		return nil, backend.Errorf(backend.InvalidArg, "%s", strings.Join(k.faults, "; "))
	}
	wanted := make([]byte, len(k.g.outputs))
	for i := range wanted {
		wanted[i] = 1
	}
	k.g.all = k.g.trace(wanted)
	k.g.number()
	return k.g, nil
}

// Faults returns what is wrong with an ensemble that cannot load for another
// reason, as [NewGraph] would say it. Steps of the models in unknown are left
// out: of those nothing can be said.
func Faults(c *modelconfig.Config, parts Lookup, unknown map[string]bool) []string {
	return check(c, parts, unknown).faults
}

// check looks at each tensor and step by itself.
func check(c *modelconfig.Config, parts Lookup, unknown map[string]bool) *checker {
	k := &checker{
		c: c, parts: parts, index: map[string]int{}, origin: map[string]origin{},
		g: &Graph{name: c.Name, inflight: c.Ensemble.MaxInflight, labels: 1},
	}
	k.declare()
	for i := range c.Ensemble.Steps {
		if s := &c.Ensemble.Steps[i]; !unknown[s.Model] {
			k.step(s)
		}
	}
	return k
}

type checker struct {
	c      *modelconfig.Config
	parts  Lookup
	g      *Graph
	index  map[string]int // tensors by name
	origin map[string]origin
	from   []bool // steps that are decoupled
	faults []string
}

// origin is where datatype and shape of a tensor were first said.
type origin struct {
	model      string
	datatype   tensor.Datatype
	dims, full tensor.Shape
}

// maxFaults bounds the length of the error.
const maxFaults = 20

func (k *checker) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(k.faults) < maxFaults && !slices.Contains(k.faults, text) {
		k.faults = append(k.faults, text)
	}
}

func (k *checker) faultIn(format string, args ...any) {
	k.fault("in ensemble "+k.c.Name+", "+format, args...)
}

func (k *checker) tensor(name string) int {
	i, ok := k.index[name]
	if !ok {
		i = len(k.g.tensors)
		k.index[name] = i
		k.g.tensors = append(k.g.tensors, node{name: name, from: -1})
	}
	return i
}

// declare notes the ensemble's own inputs and outputs.
func (k *checker) declare() {
	for i := range k.c.Inputs {
		in := &k.c.Inputs[i]
		dims := in.Dims
		if in.HasReshape {
			dims = in.Reshape
		}
		k.g.inputs = append(k.g.inputs, ioTensor{in.Name, k.tensor(in.Name), rank(k.c, dims, in.ShapeTensor)})
		k.consistent(in.Name, k.c, in.Datatype, dims)
	}
	for i := range k.c.Outputs {
		out := &k.c.Outputs[i]
		dims := out.Dims
		if out.HasReshape {
			dims = out.Reshape
		}
		k.g.outputs = append(k.g.outputs, ioTensor{out.Name, k.tensor(out.Name), rank(k.c, dims, out.ShapeTensor)})
		k.consistent(out.Name, k.c, out.Datatype, dims)
	}
}

// step checks one step and adds it to the graph.
func (k *checker) step(s *modelconfig.Step) {
	part := k.parts(s.Model, s.Version)
	if part == nil {
		if s.Version == -1 {
			k.fault("ensemble '%s' depends on '%s' which has no loaded version.", k.c.Name, s.Model)
		} else {
			hint := ""
			if s.Version == 0 {
				hint = " The step has no model_version: -1 means the latest."
			}
			k.fault("ensemble '%s' depends on '%s' whose required version %d is not loaded.%s", k.c.Name, s.Model, s.Version, hint)
		}
		return
	}
	if part.MaxBatchSize > 0 && part.MaxBatchSize < k.c.MaxBatchSize {
		k.fault("ensemble %s allows maximum batch size %d, but it contains model %s which only allows maximum batch size to be %d",
			k.c.Name, k.c.MaxBatchSize, s.Model, part.MaxBatchSize)
	}
	at := len(k.g.steps)
	st := step{model: s.Model, version: max(-1, s.Version)}
	for _, name := range slices.Sorted(maps.Keys(s.InputMap)) {
		to := s.InputMap[name]
		in := part.Input(name)
		if in == nil {
			k.faultIn("ensemble tensor %s is mapping to non-existing input %s in model %s", to, name, s.Model)
			continue
		}
		k.consistent(to, part, in.Datatype, in.Dims)
		t := k.tensor(to)
		k.g.tensors[t].to = append(k.g.tensors[t].to, at)
		st.in = append(st.in, edge{name, t, in.Optional})
	}
	for i := range part.Inputs {
		if in := &part.Inputs[i]; !in.Optional && s.InputMap[in.Name] == "" {
			k.faultIn("input %s in model %s is not mapped to any ensemble tensors", in.Name, s.Model)
		}
	}
	written := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.OutputMap)) {
		to := s.OutputMap[name]
		out := part.Output(name)
		if out == nil {
			k.faultIn("ensemble tensor %s is mapped from non-existing output %s in model %s", to, name, s.Model)
			continue
		}
		if written[to] {
			k.faultIn("multiple outputs in model %s are mapped to the same ensemble tensor %s", s.Model, to)
			continue
		}
		written[to] = true
		k.consistent(to, part, out.Datatype, out.Dims)
		t := k.tensor(to)
		k.g.tensors[t].from = at
		st.out = append(st.out, edge{name: name, tensor: t})
	}
	k.g.steps = append(k.g.steps, st)
	k.from = append(k.from, part.Decoupled)
}

// consistent compares what a model says of a tensor with what was said first.
func (k *checker) consistent(name string, m *modelconfig.Config, d tensor.Datatype, dims tensor.Shape) {
	if !d.Valid() {
		return // a fault of its own
	}
	now := origin{m.Name, d, dims, dims}
	if m.MaxBatchSize > 0 {
		now.full = append(tensor.Shape{-1}, dims...)
	}
	was, ok := k.origin[name]
	if !ok {
		k.origin[name] = now
		return
	}
	if was.datatype != d {
		k.faultIn("ensemble tensor %s: inconsistent data type: %s is inferred from model %s while %s is inferred from model %s",
			name, was.datatype.ConfigName(), was.model, d.ConfigName(), m.Name)
		return
	}
	// A model that batches and one that does not agree also when the latter spells
	// the batch dimension out.
	if !agree(was.dims, dims) && !agree(was.full, now.full) {
		k.faultIn("ensemble tensor %s: inconsistent shape: %s is inferred from model %s while %s is inferred from model %s",
			name, was.full, was.model, now.full, m.Name)
	}
}

// agree reports whether two shapes of a configuration have a shape in common.
func agree(a, b tensor.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && a[i] >= 0 && b[i] >= 0 {
			return false
		}
	}
	return true
}

// connect gives each tensor its label. The configuration's own checks have
// seen to it that every tensor can be written.
func (k *checker) connect() {
	g := k.g
	for i := range g.tensors {
		g.tensors[i].label = -1
	}
	for i := range g.inputs {
		g.tensors[g.inputs[i].tensor].label = 0
	}
	done := make([]bool, len(g.steps))
	for again := true; again; {
		again = false
		for i := range g.steps {
			s := &g.steps[i]
			if done[i] || slices.ContainsFunc(s.in, func(e edge) bool { return g.tensors[e.tensor].label < 0 }) {
				continue
			}
			done[i], again = true, true
			for j, e := range s.in {
				l := g.tensors[e.tensor].label
				if j > 0 && l != s.label {
					k.mixed(s.model)
				}
				s.label = l
			}
			s.makes = s.label
			if k.from[i] {
				s.makes = g.labels
				g.labels++
			}
			for _, e := range s.out {
				g.tensors[e.tensor].label = s.makes
			}
		}
	}
	for i := range g.outputs {
		l := g.tensors[g.outputs[i].tensor].label
		if i > 0 && l != g.outLabel {
			k.mixed(k.c.Name)
		}
		g.outLabel = l
	}
	for i := range g.steps {
		if k.from[i] {
			g.steps[i].unbound = k.returns(i)
		}
	}
}

func (k *checker) mixed(model string) {
	k.faultIn("step of model '%s' receives inputs originated from different decoupled models", model)
}

// returns reports whether a model that the step uses is used after it as well.
func (k *checker) returns(at int) bool {
	mine := map[string]bool{}
	k.uses(k.g.steps[at].model, k.g.steps[at].version, mine)
	after, seen := map[string]bool{}, map[int]bool{}
	var walk func(s int)
	walk = func(s int) {
		for _, e := range k.g.steps[s].out {
			for _, next := range k.g.tensors[e.tensor].to {
				if !seen[next] {
					seen[next] = true
					k.uses(k.g.steps[next].model, k.g.steps[next].version, after)
					walk(next)
				}
			}
		}
	}
	walk(at)
	for name := range mine {
		if after[name] {
			return true
		}
	}
	return false
}

// uses adds a model and all models it is made of.
func (k *checker) uses(model string, version int64, into map[string]bool) {
	if into[model] {
		return
	}
	into[model] = true
	if part := k.parts(model, version); part != nil && part.Ensemble != nil {
		for _, s := range part.Ensemble.Steps {
			k.uses(s.Model, s.Version, into)
		}
	}
}
