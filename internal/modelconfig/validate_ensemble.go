package modelconfig

import (
	"maps"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// graphNode is an ensemble tensor: which tensors it is made from and which are
// made from it.
type graphNode struct {
	name       string
	prev, next []*graphNode
	ready      bool
	path       string // where the tensor is first named
}

// ensemble checks what an ensemble's own configuration says. What depends on
// the configurations of its models is checked when they are loaded.
func (v *validator) ensemble(ens *inferencepb.ModelEnsembling) {
	name := v.pb.Name
	if v.pb.Platform != platformEnsemble {
		v.add("platform", `"ensemble"`, quote(v.pb.Platform), "ensemble scheduling cannot be set for model '%s' whose platform is not ensemble", name)
		return
	}
	if len(v.pb.InstanceGroup) > 0 {
		v.add("instance_group", "none, the models of the steps have their own", strconv.Itoa(len(v.pb.InstanceGroup)),
			"instance group should not be specified for ensemble '%s'", name)
	}
	if v.pb.Optimization != nil {
		v.add("optimization", "none", "one", "optimization should not be specified for ensemble '%s'", name)
	}
	if len(v.pb.ModelWarmup) > 0 {
		v.add("model_warmup", "none", strconv.Itoa(len(v.pb.ModelWarmup)), "model_warmup can not be specified for ensemble '%s'", name)
	}
	if len(ens.Step) == 0 {
		v.add("ensemble_scheduling.step", "at least one step", "none", "must specify 'step' for ensemble '%s'", name)
		return
	}
	if graph, whole := v.ensembleGraph(ens); whole {
		v.dataFlow(graph)
	}
}

// ensembleGraph makes the graph of tensors. It reports false when steps are
// too incomplete for the flow of data to mean anything.
func (v *validator) ensembleGraph(ens *inferencepb.ModelEnsembling) (map[string]*graphNode, bool) {
	name, whole := v.pb.Name, true
	graph := map[string]*graphNode{}
	node := func(tensor, path string) *graphNode {
		n := graph[tensor]
		if n == nil {
			n = &graphNode{name: tensor, path: path}
			graph[tensor] = n
		}
		return n
	}
	written := map[string]bool{}
	for i, step := range ens.Step {
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "]"
		missing := func(field string) {
			whole = false
			v.add(at+"."+field, "'"+field+"'", "nothing", "must specify '%s' in step %d of ensemble '%s'", field, i, name)
		}
		if step.ModelName == "" {
			missing("model_name")
		}
		if len(step.InputMap) == 0 {
			missing("input_map")
		}
		if len(step.OutputMap) == 0 {
			missing("output_map")
		}
		var ins []*graphNode
		for _, key := range slices.Sorted(maps.Keys(step.InputMap)) {
			ins = append(ins, node(step.InputMap[key], mapPath(at+".input_map", key)))
		}
		for _, key := range slices.Sorted(maps.Keys(step.OutputMap)) {
			tensor, path := step.OutputMap[key], mapPath(at+".output_map", key)
			if written[tensor] {
				v.add(path, "a tensor that nothing else writes", quote(tensor),
					"ensemble tensor '%s' can appear in an output map only once for ensemble '%s' step %d", tensor, name, i)
				whole = false
				continue
			}
			written[tensor] = true
			out := node(tensor, path)
			for _, in := range ins {
				in.next = append(in.next, out)
				out.prev = append(out.prev, in)
			}
		}
	}
	return graph, whole
}

// dataFlow checks that every input is used, every output is written, and no
// tensor is for nothing.
func (v *validator) dataFlow(graph map[string]*graphNode) {
	name := v.pb.Name
	var queue []*graphNode
	for i, in := range v.pb.Input {
		n := graph[in.Name]
		if n == nil { // Triton's text has a stray quote
			v.add("input["+strconv.Itoa(i)+"]", "an input that a step uses", quote(in.Name), "ensemble input '%s' for ensemble %s' is not used", in.Name, name)
			continue
		}
		n.ready = true
		queue = append(queue, n)
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, next := range n.next {
			if !next.ready && !slices.ContainsFunc(next.prev, func(p *graphNode) bool { return !p.ready }) {
				next.ready = true
				queue = append(queue, next)
			}
		}
	}
	outputs, unwritten := map[string]bool{}, map[*graphNode]bool{}
	for i, out := range v.pb.Output {
		at := "output[" + strconv.Itoa(i) + "]"
		outputs[out.Name] = true
		n := graph[out.Name]
		if n == nil {
			v.add(at, "an output that a step writes", quote(out.Name), "ensemble output '%s' for ensemble %s' is not used", out.Name, name)
			continue
		}
		if n.ready {
			continue
		}
		unwritten[n] = true
		why := ""
		if root := unconnected(n, unwritten); root != n {
			why = ": at least one of its depending tensors, '" + root.name + "', is not connected"
		}
		v.add(at, "an output that a step writes", quote(out.Name), "output '%s' for ensemble '%s' is not written%s", out.Name, name, why)
	}
	for _, tensor := range slices.Sorted(maps.Keys(graph)) {
		n := graph[tensor]
		if outputs[tensor] || unwritten[n] || n.ready && len(n.next) > 0 {
			continue
		}
		v.add(n.path, "a tensor that a later step or an output uses", quote(tensor), "ensemble tensor '%s' is unused in ensemble '%s'", tensor, name)
	}
}

// unconnected follows the tensors that never become ready back to the first
// one, and notes all of them in seen: one cause is reported once.
func unconnected(n *graphNode, seen map[*graphNode]bool) *graphNode {
	for {
		i := slices.IndexFunc(n.prev, func(p *graphNode) bool { return !p.ready && !seen[p] })
		if i < 0 {
			return n
		}
		n = n.prev[i]
		seen[n] = true
	}
}
