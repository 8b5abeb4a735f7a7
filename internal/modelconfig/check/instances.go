package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
)

// Instances checks normalized instance groups against the GPUs that there are, of
// which least is the compute capability that the server asks for.
func Instances(pb *inferencepb.ModelConfig, from *fault.Source, gpus []int, least float64) fault.List {
	var faults fault.List
	total := 0
	for i, g := range pb.InstanceGroup {
		path := "instance_group[" + strconv.Itoa(i) + "]"
		prefix := "instance group " + g.Name + " of model " + pb.Name
		add := func(field, text, expected, found string) {
			faults.Add(from.Fault(path+field, prefix+text, expected, found))
		}
		if from.Unread(path + ".kind") {
			continue // it says which of the other fields belong there
		}
		if total += int(g.Count) * max(1, len(g.Gpus)); total > modelconfig.MaxInstances {
			add(".count", " has too many instances", "at most "+strconv.Itoa(modelconfig.MaxInstances)+" in all groups",
				strconv.Itoa(total))
			return faults
		}
		switch g.Kind {
		case inferencepb.ModelInstanceGroup_KIND_MODEL, inferencepb.ModelInstanceGroup_KIND_CPU:
			if len(g.Gpus) > 0 {
				add(".gpus", " has kind "+g.Kind.String()+" but specifies one or more GPUs", "no gpus", joinInts(g.Gpus))
			}
		case inferencepb.ModelInstanceGroup_KIND_GPU:
			if len(g.Gpus) == 0 {
				add(".kind", " has kind KIND_GPU but no GPUs are available",
					"a kind that this server has, such as KIND_AUTO or KIND_CPU", "KIND_GPU")
			}
			for j, id := range g.Gpus {
				if !slices.Contains(gpus, int(id)) {
					add(".gpus["+strconv.Itoa(j)+"]", " specifies invalid or unsupported gpu id "+strconv.Itoa(int(id))+
						". GPUs with at least the minimum required CUDA compute compatibility of "+
						strconv.FormatFloat(least, 'f', 6, 64)+" are: "+joinInts(gpus),
						"one of the GPUs above", strconv.Itoa(int(id)))
				}
			}
		default:
			add(".kind", " has unknown kind", "KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL", g.Kind.String())
		}
		if len(g.Profile) > 0 && pb.Platform != platform.TensorRT && !from.Unread(platform.Fields...) {
			// Triton's text lacks the blank before "specifies".
			add(".profile", " and platform "+pb.Platform+"specifies profile field which is only supported for TensorRT models",
				"no profile", strings.Join(g.Profile, ", "))
		}
	}
	return faults
}

func joinInts[T int | int32 | int64](list []T) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.FormatInt(int64(n), 10)
	}
	return strings.Join(words, ", ")
}
