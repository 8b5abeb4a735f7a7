package check

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
)

// graphNode is an ensemble tensor.
type graphNode struct {
	name string
	path string     // where it is first named
	from *graphStep // the step that writes it
	to   []*graphStep
	// ready is set when all that it is made from can be there.
	ready bool
}

// graphStep is a step between tensors.
type graphStep struct {
	in, out []*graphNode
	waiting int // inputs that are not ready
}

// ensemble checks what an ensemble's own configuration says. What depends on
// the configurations of its models is checked when they are loaded.
func (v *validator) ensemble(ens *inferencepb.ModelEnsembling) {
	name := v.pb.Name
	if v.pb.Platform != platform.Ensemble {
		if !v.from.Unread(platform.Fields...) {
			v.add("platform", `"ensemble"`, fault.Quote(v.pb.Platform),
				"ensemble scheduling cannot be set for model '%s' whose platform is not ensemble", name)
		}
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
	if graph, whole := v.ensembleGraph(ens); whole && !v.unreadNames("input", len(v.pb.Input)) &&
		!v.unreadNames("output", len(v.pb.Output)) {
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
		if v.from.UnreadIn(at+".input_map") || v.from.UnreadIn(at+".output_map") {
			whole = false
		}
		edges := &graphStep{}
		for _, key := range slices.Sorted(maps.Keys(step.InputMap)) {
			in := node(step.InputMap[key], fault.Entry(at+".input_map", key))
			in.to = append(in.to, edges)
			edges.in = append(edges.in, in)
		}
		edges.waiting = len(edges.in)
		for _, key := range slices.Sorted(maps.Keys(step.OutputMap)) {
			tensor, path := step.OutputMap[key], fault.Entry(at+".output_map", key)
			if n := graph[tensor]; n != nil && n.from != nil {
				v.add(path, "a tensor that nothing else writes", fault.Quote(tensor),
					"ensemble tensor '%s' can appear in an output map only once for ensemble '%s' step %d", tensor, name, i)
				whole = false
				continue
			}
			out := node(tensor, path)
			out.from = edges
			edges.out = append(edges.out, out)
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
			v.add("input["+strconv.Itoa(i)+"]", "an input that a step uses", fault.Quote(in.Name),
				"ensemble input '%s' for ensemble %s' is not used", in.Name, name)
			continue
		}
		if !n.ready {
			n.ready = true
			queue = append(queue, n)
		}
	}
	spread(queue)
	outputs, unwritten := map[string]bool{}, map[*graphNode]bool{}
	for i, out := range v.pb.Output {
		if len(v.faults) >= fault.Max {
			return
		}
		at := "output[" + strconv.Itoa(i) + "]"
		outputs[out.Name] = true
		n := graph[out.Name]
		if n == nil {
			v.add(at, "an output that a step writes", fault.Quote(out.Name),
				"ensemble output '%s' for ensemble %s' is not used", out.Name, name)
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
		found := fault.Quote(out.Name)
		if c := circle(n); c != "" {
			found = c
		}
		v.add(at, "an output that a step writes", found, "output '%s' for ensemble '%s' is not written%s", out.Name, name, why)
	}
	tensors := slices.SortedFunc(maps.Keys(graph), func(a, b string) int {
		// Tensors that nothing writes first: they are the cause of the others.
		x, y := graph[a].from == nil, graph[b].from == nil
		switch {
		case x == y:
			return cmp.Compare(a, b)
		case x:
			return -1
		}
		return 1
	})
	for _, tensor := range tensors {
		n := graph[tensor]
		if outputs[tensor] || unwritten[n] || n.ready && len(n.to) > 0 {
			continue
		}
		found := fault.Quote(tensor)
		if c := circle(n); c != "" {
			found = c
		}
		v.add(n.path, "a tensor that a later step or an output uses", found,
			"ensemble tensor '%s' is unused in ensemble '%s'", tensor, name)
	}
}

// spread marks what is ready once the tensors of a queue are.
func spread(queue []*graphNode) {
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, step := range n.to {
			if step.waiting--; step.waiting > 0 {
				continue
			}
			for _, out := range step.out {
				if !out.ready {
					out.ready = true
					queue = append(queue, out)
				}
			}
		}
	}
}

// circle describes the circle that a tensor is part of, or waits for, if there
// is one: Triton's texts do not say that there is.
func circle(n *graphNode) string {
	var path []*graphNode
	for n != nil && !n.ready {
		if i := slices.Index(path, n); i >= 0 {
			var names []string
			for _, t := range append(path[i:], n) {
				names = append(names, fault.Quote(t.name))
			}
			return "the circle " + strings.Join(names, " <- ")
		}
		path = append(path, n)
		next := n
		n = nil
		if next.from != nil {
			if i := slices.IndexFunc(next.from.in, func(p *graphNode) bool { return !p.ready }); i >= 0 {
				n = next.from.in[i]
			}
		}
	}
	return ""
}

// unconnected follows the tensors that never become ready back to the first
// one, and notes all of them in seen: one cause is reported once.
func unconnected(n *graphNode, seen map[*graphNode]bool) *graphNode {
	for n.from != nil {
		i := slices.IndexFunc(n.from.in, func(p *graphNode) bool { return !p.ready && !seen[p] })
		if i < 0 {
			break
		}
		n = n.from.in[i]
		seen[n] = true
	}
	return n
}
