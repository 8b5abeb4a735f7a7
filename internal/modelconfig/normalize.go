package modelconfig

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/inferencepb"
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

// maxInstances bounds the instances of a model: each costs at least a
// goroutine, often a process.
const maxInstances = 4096

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
	preferred, known := inferencepb.ModelInstanceGroup_Kind_value[prefer.Kind]
	kind := inferencepb.ModelInstanceGroup_Kind(preferred)
	if len(pb.InstanceGroup) == 0 {
		group := &inferencepb.ModelInstanceGroup{Name: pb.Name}
		if known && (kind != inferencepb.ModelInstanceGroup_KIND_GPU || auto) {
			group.Kind = kind
			group.Count = clampCount(prefer.Count)
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
		if g.Count < 1 && prefer.Count > 0 && (!known || kind == g.Kind) {
			g.Count = clampCount(prefer.Count)
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
	faults := d.validateInstances(gpus, set.Least)
	d.chooseFile(set.Devices, &faults)
	return faults.err()
}

// chooseFile takes the file that cc_model_filenames has for the compute
// capability of the instances' GPUs. All instances have one: another would be
// another model.
func (d *Draft) chooseFile(devices []gpu.Device, faults *Faults) {
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
			faults.add(d.fault("cc_model_filenames", "the instances of model "+pb.Name+" need different files: '"+d.chosen+"' for "+chosenFor+", '"+file+"' for "+whom,
				"instance groups on GPUs of one compute capability, and another model for the others", strconv.Itoa(len(pb.CcModelFilenames))+" files"))
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

func clampCount(n int) int32 { return int32(min(max(n, 0), maxInstances)) }

func allKnown(ids []int32, gpus []int) bool {
	for _, id := range ids {
		if !slices.Contains(gpus, int(id)) {
			return false
		}
	}
	return true
}

func (d *Draft) validateInstances(gpus []int, least float64) Faults {
	var faults Faults
	pb := d.pb
	total := 0
	for i, g := range pb.InstanceGroup {
		path := "instance_group[" + strconv.Itoa(i) + "]"
		prefix := "instance group " + g.Name + " of model " + pb.Name
		add := func(field, text, expected, found string) {
			faults.add(d.fault(path+field, prefix+text, expected, found))
		}
		if total += int(g.Count) * max(1, len(g.Gpus)); total > maxInstances {
			add(".count", " has too many instances", "at most "+strconv.Itoa(maxInstances)+" in all groups", strconv.Itoa(total))
			return faults
		}
		switch g.Kind {
		case inferencepb.ModelInstanceGroup_KIND_MODEL, inferencepb.ModelInstanceGroup_KIND_CPU:
			if len(g.Gpus) > 0 {
				add(".gpus", " has kind "+g.Kind.String()+" but specifies one or more GPUs", "no gpus", joinInts(g.Gpus))
			}
		case inferencepb.ModelInstanceGroup_KIND_GPU:
			if len(g.Gpus) == 0 {
				add(".kind", " has kind KIND_GPU but no GPUs are available", "a kind that this server has, such as KIND_AUTO or KIND_CPU", "KIND_GPU")
			}
			for j, id := range g.Gpus {
				if !slices.Contains(gpus, int(id)) {
					add(".gpus["+strconv.Itoa(j)+"]", " specifies invalid or unsupported gpu id "+strconv.Itoa(int(id))+
						". GPUs with at least the minimum required CUDA compute compatibility of "+strconv.FormatFloat(least, 'f', 6, 64)+" are: "+joinInts(gpus),
						"one of the GPUs above", strconv.Itoa(int(id)))
				}
			}
		default:
			add(".kind", " has unknown kind", "KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL", g.Kind.String())
		}
		if len(g.Profile) > 0 && pb.Platform != platformTensorRT {
			// Triton's text lacks the blank before "specifies".
			add(".profile", " and platform "+pb.Platform+"specifies profile field which is only supported for TensorRT models",
				"no profile", strings.Join(g.Profile, ", "))
		}
	}
	return faults
}

const platformTensorRT = "tensorrt_plan"

func joinInts[T int | int32 | int64](list []T) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.FormatInt(int64(n), 10)
	}
	return strings.Join(words, ", ")
}
