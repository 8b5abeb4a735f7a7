package draft

import (
	"maps"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/internal/modelconfig/check"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
)

// ModelFile returns the file that each version of the model must have, or "" where
// the configuration does not tell: a backend that is not ours may do without.
func (d *Draft) ModelFile() string {
	if !platform.Known(d.pb.Backend) || len(d.pb.CcModelFilenames) > 0 {
		return ""
	}
	return d.pb.DefaultModelFilename
}

// File is a file that a field names.
type File struct {
	Field string
	// Directory is where it lies in the model's directory; empty for the top.
	Directory, Name string
}

// Files returns the files, besides the model's own, that the configuration names
// and a load reads. Paths that lead out of the model are left to [Draft.Check].
func (d *Draft) Files() []File {
	var all []File
	add := func(field, directory, name string) {
		if name != "" && check.Local(name) {
			all = append(all, File{field, directory, name})
		}
	}
	for i, out := range d.pb.Output {
		add("output["+strconv.Itoa(i)+"].label_filename", "", out.LabelFilename)
	}
	for i, w := range d.pb.ModelWarmup {
		if w.BatchSize == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(w.Inputs)) {
			add(fault.Entry("model_warmup["+strconv.Itoa(i)+"].inputs", name)+".input_data_file", "warmup",
				w.Inputs[name].GetInputDataFile())
		}
	}
	for i, s := range d.pb.GetSequenceBatching().GetState() {
		for j, init := range s.InitialState {
			add("sequence_batching.state["+strconv.Itoa(i)+"].initial_state["+strconv.Itoa(j)+"].data_file", "initial_state",
				init.GetDataFile())
		}
	}
	return all
}
