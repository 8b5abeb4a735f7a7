package platform

import (
	"slices"
	"testing"
)

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		content map[string]bool
		want    Kind
		found   bool
	}{
		{Kind{Backend: "python"}, nil, Kind{"python", "", "model.py"}, true},
		{Kind{}, map[string]bool{"model.onnx": false}, Kind{"onnxruntime", "onnxruntime_onnx", "model.onnx"}, true},
		{Kind{}, map[string]bool{"model.onnx": true}, Kind{"onnxruntime", "onnxruntime_onnx", "model.onnx"}, true},
		{Kind{}, map[string]bool{"model.savedmodel": false}, Kind{}, false}, // must be a directory
		{Kind{}, map[string]bool{"model.plan": true}, Kind{}, false},        // must be a file
		{Kind{Platform: "libtorch"}, nil, Kind{"pytorch", "libtorch", "model.pt"}, true},
		{Kind{Backend: "fil"}, map[string]bool{"xgboost.json": false}, Kind{Backend: "fil"}, false},
		{Kind{}, map[string]bool{"xgboost.json": false}, Kind{"fil", "", "xgboost.json"}, true},
		{Kind{Filename: "model.py"}, nil, Kind{"python", "", "model.py"}, true},
		{Kind{Backend: "mine"}, map[string]bool{"model.py": false}, Kind{Backend: "mine"}, false},
	} {
		if got, found := c.kind.Complete(c.content); got != c.want || found != c.found {
			t.Errorf("%+v, %v: got %+v, %v", c.kind, c.content, got, found)
		}
	}
}

func TestExpected(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		want []string
	}{
		{Kind{Backend: "tensorflow", Platform: "tensorflow_graphdef"}, nil},
		{Kind{Backend: "tensorflow", Filename: "model.keras"}, nil}, // Triton has no platform for it
		{Kind{Backend: "tensorflow", Platform: "x"}, []string{"tensorflow_savedmodel", "tensorflow_graphdef"}},
		{Kind{Backend: "pytorch", Platform: "libtorch"}, nil},
		{Kind{Backend: "mine", Platform: "x"}, nil},
	} {
		if got := c.kind.Expected(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.kind, got, c.want)
		}
	}
	if !Known("sklearn") || Known("mine") {
		t.Error("the wrong backends are known")
	}
}

func TestNearest(t *testing.T) {
	have := []string{"python", "onnxruntime", "pytorch"}
	for name, want := range map[string]string{
		"torch": "pytorch", "onnxruntime_onnx": "onnxruntime", "phyton": "python", "TorchScript": "pytorch", "trt": "", "xyz": "",
	} {
		if got := NearestBackend(name, have); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"pytorch_libtorsh": `did you mean "pytorch_libtorch"?`, "pythn": `did you mean backend: "python"?`, "xyz": "",
	} {
		if got := Suggest(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
