package draft

import (
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
)

// CompleteBackend fills in name, backend, platform and
// default_model_filename from each other and from the content of the first version
// directory: for each name there whether it is a directory. It may be nil.
func (d *Draft) CompleteBackend(name string, content map[string]bool) error {
	pb := d.pb
	if pb.Name == "" {
		pb.Name = name
	}
	if pb.Platform == platform.Ensemble {
		return nil
	}
	if kind, found := d.kind().Complete(content); found {
		pb.Backend, pb.Platform, pb.DefaultModelFilename = kind.Backend, kind.Platform, kind.Filename
		return nil
	}
	if pb.Backend != "" || pb.Platform != "" || pb.DefaultModelFilename != "" || pb.GetEnsembleScheduling() != nil {
		return nil
	}
	// A model without any hint names its backend itself: model.<backend>.
	_, custom, found := strings.Cut(name, ".")
	if !found {
		var faults fault.List
		f := d.from.Fault("backend", "Invalid model name: Could not determine backend for model '"+name+
			"' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
			"'backend' or 'platform', or a file such as model.py or model.onnx in the version directory", "none of them")
		faults.Add(f)
		return faults
	}
	pb.Backend = custom
	pb.DefaultModelFilename = "model." + custom
	return nil
}

// Rename gives the model the name under which it is served.
func (d *Draft) Rename(model string) { d.pb.Name = model }

// CheckDirectory reports whether the model's name is that of its directory.
func (d *Draft) CheckDirectory(directory string) error {
	if d.pb.Name == directory {
		return nil
	}
	var faults fault.List
	faults.Add(d.from.Fault("name", "unexpected directory name '"+directory+"' for model '"+d.pb.Name+
		"', directory name must equal model name", fault.Quote(directory), fault.Quote(d.pb.Name)))
	return faults
}

func (d *Draft) kind() platform.Kind {
	return platform.Kind{Backend: d.pb.Backend, Platform: d.pb.Platform, Filename: d.pb.DefaultModelFilename}
}
