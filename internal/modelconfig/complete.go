package modelconfig

import (
	"io/fs"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
)

// platformRule says how one kind of model is recognized. Rules are tried in
// order.
type platformRule struct {
	backend  string
	platform string // empty: the backend has no platform
	alias    string // another name of the platform
	filename string
	// directory and file say what the name must be to count; neither: only what
	// the configuration says counts.
	directory, file bool
	// byName: the backend's name alone is enough.
	byName bool
	// unnamed: counts only where the configuration names no backend; one that is
	// named looks for its files itself, by its parameters.
	unnamed bool
}

var platformRules = []platformRule{
	{backend: "tensorflow", platform: "tensorflow_savedmodel", filename: "model.savedmodel", directory: true},
	{backend: "tensorflow", platform: "tensorflow_graphdef", filename: "model.graphdef", file: true},
	{backend: "tensorrt", platform: platformTensorRT, filename: "model.plan", file: true, byName: true},
	{backend: "onnxruntime", platform: "onnxruntime_onnx", filename: "model.onnx", file: true, directory: true, byName: true},
	{backend: "openvino", filename: "model.xml", file: true, byName: true},
	{backend: "openvino", filename: "model.pdmodel", file: true},
	{backend: "pytorch", platform: "pytorch_libtorch", alias: "libtorch", filename: "model.pt", file: true},
	{backend: "pytorch", platform: "torch_aoti", filename: "model.pt2", file: true, directory: true},
	{backend: "pytorch", platform: "pytorch_libtorch", filename: "model.pt", byName: true},
	{backend: "tensorflow", filename: "model.keras", file: true},
	{backend: "tensorflow", filename: "model.tflite", file: true},
	{backend: "sklearn", filename: "model.skops", file: true, byName: true},
	{backend: "sklearn", filename: "model.joblib", file: true},
	{backend: "python", filename: "model.py", file: true, byName: true},
	{backend: "fil", filename: "xgboost.json", file: true, unnamed: true},
	{backend: "fil", filename: "xgboost.ubj", file: true, unnamed: true},
	{backend: "fil", filename: "xgboost.model", file: true, unnamed: true},
	{backend: "fil", filename: "checkpoint.tl", file: true, unnamed: true},
	{backend: "fil", filename: "model.json", file: true, unnamed: true},
	{backend: "fil", filename: "model.ubj", file: true, unnamed: true},
	{backend: "fil", filename: "model.txt", file: true, unnamed: true},
	{backend: "fil", filename: "model.tl", file: true, unnamed: true},
	{backend: "fil", filename: "model.pkl", file: true, unnamed: true},
	{backend: "fil", filename: "model.pickle", file: true, unnamed: true},
}

// CompleteBackend fills in name, backend, platform and
// default_model_filename from each other and from what lies in the first
// version directory. model is the model's directory; it may be nil.
func (d *Draft) CompleteBackend(name string, model fs.FS) error {
	pb := d.pb
	if pb.Name == "" {
		pb.Name = name
	}
	if pb.Platform == platformEnsemble {
		return nil
	}
	content := firstVersion(model)
	for i := range platformRules {
		r := &platformRules[i]
		if !r.matches(pb, content) {
			continue
		}
		if pb.Backend == "" {
			pb.Backend = r.backend
		}
		if pb.Platform == "" {
			pb.Platform = r.platform
		}
		if pb.DefaultModelFilename == "" {
			pb.DefaultModelFilename = r.filename
		}
		return nil
	}
	if pb.Backend != "" || pb.Platform != "" || pb.DefaultModelFilename != "" || pb.GetEnsembleScheduling() != nil {
		return nil
	}
	// A model without any hint names its backend itself: model.<backend>.
	_, custom, found := strings.Cut(name, ".")
	if !found {
		var faults Faults
		f := d.fault("backend", "Invalid model name: Could not determine backend for model '"+name+
			"' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
			"'backend' or 'platform', or a file such as model.py or model.onnx in the version directory", "none of them")
		faults.add(f)
		return faults
	}
	pb.Backend = custom
	pb.DefaultModelFilename = "model." + custom
	return nil
}

const platformEnsemble = "ensemble"

// matches reports whether the rule holds for the configuration, or, where that
// says nothing, for the content of the version directory.
func (r *platformRule) matches(pb *inferencepb.ModelConfig, content map[string]bool) bool {
	named := pb.Backend == r.backend
	if pb.Backend != "" && (!named || r.unnamed) {
		return false
	}
	if r.platform != "" && pb.Platform != "" {
		return pb.Platform == r.platform || pb.Platform == r.alias
	}
	if pb.DefaultModelFilename != "" {
		return pb.DefaultModelFilename == r.filename || named && r.byName
	}
	if dir, exists := content[r.filename]; exists && pb.Platform == "" && (dir && r.directory || !dir && r.file) {
		return true
	}
	return named && r.byName
}

// firstVersion lists the lexically first version directory: for each name
// whether it is a directory.
func firstVersion(model fs.FS) map[string]bool {
	if model == nil {
		return nil
	}
	entries, err := fs.ReadDir(model, ".")
	if err != nil {
		return nil
	}
	for _, e := range entries { // sorted by name
		if _, ok := ParseVersion(e.Name()); !ok || !isDirectory(model, e) {
			continue
		}
		files, err := fs.ReadDir(model, e.Name())
		if err != nil {
			return nil
		}
		content := make(map[string]bool, len(files))
		for _, f := range files {
			dir := f.IsDir()
			if f.Type()&fs.ModeSymlink != 0 {
				info, err := fs.Stat(model, e.Name()+"/"+f.Name())
				dir = err == nil && info.IsDir()
			}
			content[f.Name()] = dir
		}
		return content
	}
	return nil
}

// isDirectory follows symbolic links, which are common in repositories.
func isDirectory(dir fs.FS, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fs.Stat(dir, e.Name())
	return err == nil && info.IsDir()
}

// Rename gives the model the name under which it is served.
func (d *Draft) Rename(model string) { d.pb.Name = model }

// CheckDirectory reports whether the model's name is that of its directory.
func (d *Draft) CheckDirectory(directory string) error {
	if d.pb.Name == directory {
		return nil
	}
	var faults Faults
	faults.add(d.fault("name", "unexpected directory name '"+directory+"' for model '"+d.pb.Name+
		"', directory name must equal model name", quote(directory), quote(d.pb.Name)))
	return faults
}

// NotProvided is the error for a model that has neither a file nor a backend
// that supplies a configuration.
func NotProvided(model string) error {
	return backend.Errorf(backend.NotFound, "model configuration is not provided for model '%s'", model)
}
