package draft

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
)

// preference is an instance group that a backend prefers.
type preference struct {
	backend.PreferredGroup
	kind  inferencepb.ModelInstanceGroup_Kind
	known bool // the backend has said a kind
}

func preferences(can backend.Capabilities) []preference {
	groups := can.Preferred
	if len(groups) == 0 {
		groups = []backend.PreferredGroup{{Kind: can.Kind, Count: can.Count}}
	}
	all := make([]preference, len(groups))
	for i, g := range groups {
		kind, known := inferencepb.ModelInstanceGroup_Kind_value[g.Kind]
		all[i] = preference{PreferredGroup: g, kind: inferencepb.ModelInstanceGroup_Kind(kind), known: known}
	}
	return all
}

// LacksInstances reports whether the configuration leaves instance groups, or their
// counts, to its backend.
func (d *Draft) LacksInstances() bool {
	return d.pb.GetEnsembleScheduling() == nil && (len(d.pb.InstanceGroup) == 0 ||
		slices.ContainsFunc(d.pb.InstanceGroup, func(g *inferencepb.ModelInstanceGroup) bool { return g.Count < 1 }))
}

// begin makes the preference the only group of a configuration. It reports false
// where it cannot be had: auto says whether there are GPUs that the backend can use.
func (p *preference) begin(g *inferencepb.ModelInstanceGroup, gpus []int, auto bool) bool {
	if !p.known || p.kind == inferencepb.ModelInstanceGroup_KIND_GPU && !auto {
		return false
	}
	switch p.kind {
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		g.Gpus = p.devices(func(id int) bool { return slices.Contains(gpus, id) })
		if len(p.Devices) > 0 && len(g.Gpus) == 0 {
			return false
		}
	case inferencepb.ModelInstanceGroup_KIND_AUTO: // which means these GPUs, if all are there, or the CPU
		if all := p.devices(func(int) bool { return true }); auto && allKnown(all, gpus) {
			g.Gpus = all
		}
	case inferencepb.ModelInstanceGroup_KIND_CPU, inferencepb.ModelInstanceGroup_KIND_MODEL:
	}
	g.Kind, g.Count = p.kind, clampCount(p.Count)
	return true
}

func (p *preference) devices(there func(id int) bool) (all []int32) {
	for _, id := range p.Devices {
		if there(id) {
			all = append(all, int32(id))
		}
	}
	return all
}

// fill gives a group of the preference's kind what it leaves open.
func (p *preference) fill(g *inferencepb.ModelInstanceGroup, gpus []int) {
	if p.known && p.kind != g.Kind {
		return
	}
	if g.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && len(g.Gpus) == 0 && len(p.Devices) > 0 {
		g.Gpus = p.devices(func(id int) bool { return slices.Contains(gpus, id) })
		if len(g.Gpus) == 0 {
			return
		}
	}
	if g.Count < 1 {
		g.Count = clampCount(p.Count)
	}
}
