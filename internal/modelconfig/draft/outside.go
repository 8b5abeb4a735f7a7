package draft

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/check"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/spelling"
)

// ModelDirectory stands for the model's directory in the value of a parameter,
// as in Triton.
const ModelDirectory = "$$TRITON_MODEL_DIRECTORY"

// Outside is a field of a configuration that names a file which does not lie in
// the model's directory, or may not.
type Outside struct{ Field, Value string }

// Outside returns those fields, for a draft whose backend is of. Whoever sends a
// configuration says what is in the model, not what else the server opens.
// Labels, warm-up samples and initial states are not among them: of these a path
// that leads out is a fault in any configuration.
func (d *Draft) Outside(of *backend.Driver) []Outside {
	o := outside{}
	pb := d.pb
	o.local("default_model_filename", pb.DefaultModelFilename)
	o.local("runtime", pb.Runtime)
	for _, key := range slices.Sorted(maps.Keys(pb.CcModelFilenames)) {
		o.local(fault.Entry("cc_model_filenames", key), pb.CcModelFilenames[key])
	}
	for i, name := range pb.GetModelOperations().GetOpLibraryFilename() {
		o.local("model_operations.op_library_filename["+strconv.Itoa(i)+"]", name)
	}
	accelerators := pb.GetOptimization().GetExecutionAccelerators()
	o.accelerators("optimization.execution_accelerators.gpu_execution_accelerator", accelerators.GetGpuExecutionAccelerator())
	o.accelerators("optimization.execution_accelerators.cpu_execution_accelerator", accelerators.GetCpuExecutionAccelerator())
	o.parameters(pb.Parameters, of)
	return o.found
}

type outside struct{ found []Outside }

func (o *outside) add(field, value string) { o.found = append(o.found, Outside{field, value}) }

// local takes a path that starts in the model.
func (o *outside) local(field, value string) {
	if value != "" && !check.Local(value) {
		o.add(field, value)
	}
}

func (o *outside) accelerators(field string, all []*inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator) {
	for i, a := range all {
		for _, name := range slices.Sorted(maps.Keys(a.Parameters)) {
			if value := a.Parameters[name]; namesFile(name, value) {
				o.add(fault.Entry(field+"["+strconv.Itoa(i)+"].parameters", name), value)
			}
		}
	}
}

// parameters looks at those that the driver says are paths. Where a relative one
// starts at the server's working directory, only ModelDirectory leads into the
// model.
func (o *outside) parameters(all map[string]*inferencepb.ModelParameter, of *backend.Driver) {
	if of == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name].GetStringValue()
		switch rest, inModel := strings.CutPrefix(value, ModelDirectory); {
		case value == "":
		case slices.Contains(of.Files, name):
			o.local(fault.Entry("parameters", name), value)
		case !spelling.Known(name, of.Paths):
		case inModel && check.Local(path.Clean("./"+rest)):
		case slices.Contains(of.Paths, name) || namesFile(name, value):
			o.add(fault.Entry("parameters", name), value)
		}
	}
}

// namesFile guesses whether a setting of a library names a file: its options are
// more than can be listed, and each release has new ones.
func namesFile(name, value string) bool {
	if strings.ContainsAny(value, `/\`) {
		return true
	}
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '.' || r == '-' }) {
		switch word {
		case "path", "paths", "dir", "dirs", "file", "files", "filename", "folder", "lib", "libs", "library", "libraries":
			return value != ""
		}
		for _, end := range []string{"path", "directory", "filename"} {
			if strings.HasSuffix(word, end) {
				return value != ""
			}
		}
	}
	return false
}
