package draft

import (
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/check"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// defaultSequenceIdle is how long a sequence may be silent, in microseconds.
const defaultSequenceIdle = 1_000_000

// Normalize fills in the defaults that depend on nothing outside of the
// configuration. It may be called again after a change.
func (d *Draft) Normalize() {
	pb := d.pb
	if pb.VersionPolicy == nil {
		pb.VersionPolicy = &inferencepb.ModelVersionPolicy{PolicyChoice: &inferencepb.ModelVersionPolicy_Latest_{
			Latest: &inferencepb.ModelVersionPolicy_Latest{NumVersions: 1},
		}}
	}
	if dyn := pb.GetDynamicBatching(); dyn != nil && len(dyn.PreferredBatchSize) == 0 && pb.MaxBatchSize > 0 {
		dyn.PreferredBatchSize = []int32{pb.MaxBatchSize}
	}
	if seq := pb.GetSequenceBatching(); seq != nil {
		if seq.MaxSequenceIdleMicroseconds == 0 {
			seq.MaxSequenceIdleMicroseconds = defaultSequenceIdle
		}
		if oldest := seq.GetOldest(); oldest != nil && len(oldest.PreferredBatchSize) == 0 && pb.MaxBatchSize > 0 {
			oldest.PreferredBatchSize = []int32{pb.MaxBatchSize}
		}
	}
	if pb.GetEnsembleScheduling() != nil {
		return
	}
	if pb.Optimization == nil {
		pb.Optimization = &inferencepb.ModelOptimizationPolicy{}
	}
	if pb.Optimization.InputPinnedMemory == nil {
		pb.Optimization.InputPinnedMemory = &inferencepb.ModelOptimizationPolicy_PinnedMemoryBuffer{Enable: true}
	}
	if pb.Optimization.OutputPinnedMemory == nil {
		pb.Optimization.OutputPinnedMemory = &inferencepb.ModelOptimizationPolicy_PinnedMemoryBuffer{Enable: true}
	}
}

// NormalizeInstances gives every instance group its name, kind, count and
// GPUs, from what the server has and the backend prefers, validates them, and
// chooses the model's file by cc_model_filenames. Ensembles have no instances.
func (d *Draft) NormalizeInstances(set gpu.Set, prefer backend.Capabilities) error {
	pb := d.pb
	if pb.GetEnsembleScheduling() != nil {
		return nil
	}
	gpus := make([]int, len(set.Devices))
	for i := range set.Devices {
		gpus[i] = set.Devices[i].Number
	}
	auto := len(gpus) > 0 && (prefer.UsesGPU == nil || prefer.UsesGPU()) // whether KIND_AUTO may mean a GPU
	wanted := preferences(prefer)
	if len(pb.InstanceGroup) == 0 {
		group := &inferencepb.ModelInstanceGroup{Name: pb.Name}
		for k := range wanted {
			if wanted[k].begin(group, gpus, auto) {
				break
			}
		}
		pb.InstanceGroup = []*inferencepb.ModelInstanceGroup{group}
	}
	for i, g := range pb.InstanceGroup {
		if g.Name == "" {
			g.Name = pb.Name + "_" + strconv.Itoa(i)
		}
		if g.Kind == inferencepb.ModelInstanceGroup_KIND_AUTO {
			g.Kind = inferencepb.ModelInstanceGroup_KIND_GPU
			if !auto || !allKnown(g.Gpus, gpus) {
				g.Kind = inferencepb.ModelInstanceGroup_KIND_CPU
			}
		}
		for k := range wanted {
			wanted[k].fill(g, gpus)
		}
		if g.Count < 1 {
			g.Count = 1
			if g.Kind == inferencepb.ModelInstanceGroup_KIND_CPU && (pb.Backend == "onnxruntime" || pb.Backend == "tensorflow") {
				g.Count = 2
			}
		}
		if g.Kind == inferencepb.ModelInstanceGroup_KIND_GPU && len(g.Gpus) == 0 {
			for _, id := range gpus {
				g.Gpus = append(g.Gpus, int32(id))
			}
		}
	}
	faults := check.Instances(pb, d.from, gpus, set.Least)
	if !slices.ContainsFunc(pb.InstanceGroup, func(g *inferencepb.ModelInstanceGroup) bool { return !g.Passive }) {
		faults.Add(d.from.Fault("instance_group", "all instances of the model are passive: none would take its requests",
			"a group without passive", ""))
	}
	d.chooseFile(set.Devices, &faults)
	return faults.Err()
}

// chooseFile takes the file that cc_model_filenames has for the compute
// capability of the instances' GPUs. All instances have one: another would be
// another model.
func (d *Draft) chooseFile(devices []gpu.Device, faults *fault.List) {
	pb := d.pb
	if len(pb.CcModelFilenames) == 0 {
		return
	}
	d.chosen = ""
	chosenFor := ""
	choose := func(file, whom string) {
		switch {
		case chosenFor == "":
			d.chosen, chosenFor = file, whom
		case d.chosen != file:
			faults.Add(d.from.Fault("cc_model_filenames",
				"the instances of model "+pb.Name+" need different files: '"+d.chosen+"' for "+chosenFor+", '"+file+"' for "+whom,
				"instance groups on GPUs of one compute capability, and another model for the others",
				strconv.Itoa(len(pb.CcModelFilenames))+" files"))
		}
	}
	for _, g := range pb.InstanceGroup {
		if g.Kind != inferencepb.ModelInstanceGroup_KIND_GPU {
			choose(pb.DefaultModelFilename, "the CPU")
			continue
		}
		for i := range devices {
			if device := &devices[i]; slices.Contains(g.Gpus, int32(device.Number)) {
				file, ok := pb.CcModelFilenames[device.Capability()]
				if !ok {
					file = pb.DefaultModelFilename
				}
				choose(file, "GPU "+strconv.Itoa(device.Number)+" (compute capability "+device.Capability()+")")
			}
		}
	}
}

func clampCount(n int) int32 { return int32(min(max(n, 0), modelconfig.MaxInstances)) }

func allKnown(ids []int32, gpus []int) bool {
	for _, id := range ids {
		if !slices.Contains(gpus, int(id)) {
			return false
		}
	}
	return true
}
