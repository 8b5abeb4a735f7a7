package platform

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Platforms with a meaning of their own.
const (
	Ensemble = "ensemble"
	TensorRT = "tensorrt_plan"
)

// Fields are those of a configuration that say what kind its model is. Each is
// completed from the others, so nothing can be said of one while another is not known.
var Fields = []string{"platform", "backend", "default_model_filename"}

// Kind is what a configuration says of a model's kind; what it does not say is
// empty.
type Kind struct{ Backend, Platform, Filename string }

// rule says how one kind of model is recognized. Rules are tried in order.
type rule struct {
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

var rules = []rule{
	{backend: "tensorflow", platform: "tensorflow_savedmodel", filename: "model.savedmodel", directory: true},
	{backend: "genai", filename: "genai_config.json", file: true, byName: true},
	{backend: "tensorflow", platform: "tensorflow_graphdef", filename: "model.graphdef", file: true},
	{backend: "tensorrt", platform: TensorRT, filename: "model.plan", file: true, byName: true},
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

// Complete returns the kind with what it does not say, from what it does and from
// the content of the first version directory: for each name whether it is a
// directory. It reports false where no rule holds.
func (k Kind) Complete(content map[string]bool) (Kind, bool) {
	for i := range rules {
		if r := &rules[i]; r.matches(k, content) {
			return Kind{cmp.Or(k.Backend, r.backend), cmp.Or(k.Platform, r.platform), cmp.Or(k.Filename, r.filename)}, true
		}
	}
	return k, false
}

// matches reports whether the rule holds for the configuration, or, where that
// says nothing, for the content of the version directory.
func (r *rule) matches(k Kind, content map[string]bool) bool {
	named := k.Backend == r.backend
	if k.Backend != "" && (!named || r.unnamed) {
		return false
	}
	if r.platform != "" && k.Platform != "" {
		return k.Platform == r.platform || k.Platform == r.alias
	}
	if k.Filename != "" {
		return k.Filename == r.filename || named && r.byName
	}
	if dir, exists := content[r.filename]; exists && k.Platform == "" && (dir && r.directory || !dir && r.file) {
		return true
	}
	return named && r.byName
}

// Known reports whether the backend is one whose files are known.
func Known(backend string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.backend == backend })
}

// Expected returns the platforms that a model of the kind's backend may have, where
// the kind has another one; else none.
func (k Kind) Expected() []string {
	var platforms []string
	for _, r := range rules {
		if r.backend != k.Backend {
			continue
		}
		// Files of a kind that Triton has no platform for, as Keras's, have none.
		ours := r.platform != "" || strings.EqualFold(path.Ext(k.Filename), path.Ext(r.filename))
		if k.Platform == r.platform && ours || r.alias != "" && k.Platform == r.alias {
			return nil
		}
		if r.platform != "" && !slices.Contains(platforms, r.platform) {
			platforms = append(platforms, r.platform)
		}
	}
	return platforms
}
