package modelpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func touch(t *testing.T, top string, names ...string) []string {
	t.Helper()
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(paths[i]), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[i], []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// TestPathsThatCannotBeServed: the error says what to do.
func TestPathsThatCannotBeServed(t *testing.T) {
	for _, c := range []struct {
		name, want string
		files      []string
	}{
		{"two of one name", "would both be the model 'net'", []string{"a/net.onnx", "b/net.onnx"}},
		{"no ending", "what runs this file is not clear from its name; known endings: .bst .engine", []string{"net"}},
		{"HDF5", "save it as .keras, or as a SavedModel with model.export()", []string{"net.H5"}},
		{"a frozen graph", "rename a frozen graph to .graphdef; of a SavedModel name the directory", []string{"net.pb"}},
		{"weights alone", "it holds weights without the model", []string{"net.safetensors"}},
		{"weights of OpenVINO", "name the .xml file beside it", []string{"net.bin"}},
		{"weights of PaddlePaddle", "name the .pdmodel file beside it", []string{"net.pdiparams"}},
		{"a language model", "serve it from a model.py", []string{"net.gguf"}},
		{"Core ML", "convert it to ONNX", []string{"net.mlmodel"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, remove, err := Repository(touch(t, t.TempDir(), c.files...))
			if err == nil {
				remove()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Base(c.files[0])) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestNames: the one model file of a directory is the model, and NAME=PATH names it.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		name, prefix string
		files        []string
		want         string // the model, or "" for a repository
	}{
		{"a file of any name", "", []string{"d/iris.onnx"}, "iris"},
		{"one with a name", "net=", []string{"d/iris.onnx", "d/README.txt", "d/.hidden.onnx"}, "net"},
		{"a model by its kind", "net=", []string{"d/model.bst"}, "net"},
		{"a model's directory", "net=", []string{"d/1/model.onnx", "d/config.pbtxt"}, "net"},
		{"a repository", "net=", []string{"d/m/1/model.onnx"}, ""},
		{"a repository with a file", "", []string{"d/m/1/model.onnx", "d/iris.onnx"}, ""},
		{"two files", "", []string{"d/a.onnx", "d/b.onnx"}, ""},
		{"notes alone", "", []string{"d/notes.txt", "d/more.json"}, ""},
		{"a name that is a kind's", "xgboost=", []string{"d/model.ubj"}, "xgboost"},
		{"a name that is a file's", "model=", []string{"d/model.onnx"}, "model"},
		{"a name with blanks", "a b=", []string{"d/iris.onnx"}, "refused"},
		{"no name", "=", []string{"d/iris.onnx"}, "refused"},
		{"a path as a name", "../up=", []string{"d/iris.onnx"}, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			touch(t, top, c.files...)
			_, models, remove, err := Repository([]string{c.prefix + filepath.Join(top, "d")})
			if err != nil {
				if c.want != "refused" {
					t.Error(err)
				}
				return
			}
			defer remove()
			if got := strings.Join(models, " "); got != c.want {
				t.Errorf("expected the model %q, got %q", c.want, got)
			}
		})
	}
	dir := filepath.Dir(touch(t, t.TempDir(), "a=b/iris.onnx")[0])
	if name, path := Named(dir); name != "" || path != dir {
		t.Errorf("expected that %s is a path, got the name %q and the path %s", dir, name, path)
	}
}
