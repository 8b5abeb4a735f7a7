package platform

import (
	"maps"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/spelling"
)

// otherBackends are names by which backends go elsewhere: what makes their
// models, files of theirs, how they are called for short.
var otherBackends = map[string]string{
	"torchscript": "pytorch", "libtorch": "pytorch", "torch": "pytorch", "torch_export": "pytorch", "aoti": "pytorch",
	"aotinductor": "pytorch",
	"onnx":        "onnxruntime", "ort": "onnxruntime", "tf": "tensorflow", "savedmodel": "tensorflow", "graphdef": "tensorflow",
	"keras": "tensorflow", "tflite": "tensorflow",
	"trt": "tensorrt", "scikit-learn": "sklearn", "scikit_learn": "sklearn", "skops": "sklearn", "xgboost": "fil",
	"lightgbm": "fil", "ov": "openvino", "onnxruntime-genai": "genai", "onnxruntime_genai": "genai",
}

// leastCompared is how long another name of a backend is that slips of fingers
// are looked for in: too much is like a short one.
const leastCompared = 6

// NearestBackend returns the one of the backends that is most likely meant by a
// name that none of them has, or "": one that is called so elsewhere, whose
// platform it is, or whose name or other name is like it.
func NearestBackend(name string, have []string) string {
	means, candidates := map[string]string{}, slices.Clone(have)
	add := func(other, of string) {
		if other == "" || !slices.Contains(have, of) {
			return
		}
		if means[other] = of; len(other) >= leastCompared {
			candidates = append(candidates, other)
		}
	}
	for _, other := range slices.Sorted(maps.Keys(otherBackends)) {
		add(other, otherBackends[other])
	}
	for i := range rules {
		add(rules[i].platform, rules[i].backend)
	}
	near := strings.ToLower(name)
	if means[near] == "" {
		near = spelling.Nearest(name, candidates)
	}
	if of := means[near]; of != "" {
		return of
	}
	return near
}

// Suggest says which platform was meant, or which backend by a name that
// is none of a platform.
func Suggest(name string) string {
	platforms, backends := []string{Ensemble}, []string(nil)
	for i := range rules {
		if platform := rules[i].platform; platform != "" {
			platforms = append(platforms, platform)
		}
		backends = append(backends, rules[i].backend)
	}
	if near := spelling.Nearest(name, platforms); near != "" {
		return fault.DidYouMean(near)
	}
	if near := NearestBackend(name, backends); near != "" {
		return "did you mean backend: \"" + near + "\"?"
	}
	return ""
}
