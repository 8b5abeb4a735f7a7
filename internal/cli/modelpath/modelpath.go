// Package modelpath finds out which model a path on the command line names: a
// file, a model's directory, or a repository. Open modelpath.go first, then
// directory.go.
package modelpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/cli/script"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/scratch"
)

// Model is a model that is named by itself, outside of a repository.
type Model struct {
	Name string
	// Directory is that of the model when there is one; else version is what becomes
	// version 1, and config says what lies in it.
	Directory       string
	version, config string
}

// backendOf says what runs a file, by the end of its name.
var backendOf = map[string]string{
	".onnx": "onnxruntime", ".ort": "onnxruntime", ".xml": "openvino", ".pt": "pytorch", ".pt2": "pytorch", ".pth": "pytorch", ".py": "python",
	".plan": "tensorrt", ".engine": "tensorrt", ".keras": "tensorflow", ".graphdef": "tensorflow", ".savedmodel": "tensorflow",
	".tflite": "tensorflow", ".pdmodel": "openvino",
	".ubj": "fil", ".json": "fil", ".model": "fil", ".bst": "fil", ".txt": "fil", ".tl": "fil", ".pkl": "fil", ".joblib": "sklearn",
	".skops": "sklearn",
}

// instead says what to do with files that people have and that nothing runs as
// they are.
var instead = map[string]string{
	".h5": hintHDF5, ".hdf5": hintHDF5,
	".pb":          "rename a frozen graph to .graphdef; of a SavedModel name the directory that saved_model.pb lies in",
	".safetensors": hintWeights, ".ckpt": hintWeights, ".npz": hintWeights,
	".bin": "name the .xml file beside it, if these are the weights of an OpenVINO model; else it holds weights without the model: " +
		"save the whole model, for example as ONNX",
	".pdiparams": "name the .pdmodel file beside it",
	".gguf":      "serve it from a model.py that loads it, for example with llama-cpp-python (docs/models/python-models.md)",
	".mlmodel":   hintCoreML, ".mlpackage": hintCoreML,
}

const (
	hintHDF5    = "Keras has written it in an old format: save it as .keras, or as a SavedModel with model.export()"
	hintWeights = "it holds weights without the model: save the whole model, for example as ONNX, TorchScript or with torch.export, or " +
		"load them in a model.py"
	hintCoreML = "Core ML runs on Apple's machines only: convert it to ONNX"
)

// ErrRepository says that a path is a whole model repository.
var ErrRepository = errors.New("a model repository")

// Read finds out what lies at a path: a model file, a model directory
// (with config.pbtxt or versions), a version directory, or a TensorFlow
// SavedModel. It returns ErrRepository for a directory of models.
func Read(path string) (*Model, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return modelOfFile(abs)
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case layout.IsModel(abs, entries):
		return &Model{Name: filepath.Base(abs), Directory: abs}, nil
	case has("saved_model.pb"):
		parent, base := filepath.Split(abs)
		return &Model{
			Name: modelName(abs), version: filepath.Clean(parent),
			config: "platform: \"tensorflow_savedmodel\"\ndefault_model_filename: " + quoted(base) + "\n",
		}, nil
	}
	for _, name := range []string{
		"genai_config.json",
		"model.onnx", "model.xml", "model.pt", "model.pt2", "model.py", "model.plan", "model.savedmodel", "model.graphdef", "model.keras",
		"model.tflite", "model.pdmodel",
		"model.skops", "model.joblib", "xgboost.json", "xgboost.ubj", "xgboost.model", "model.txt", "checkpoint.tl", "model.pkl",
		"model.bst", "model.ubj", "model.json",
	} {
		if has(name) {
			m := &Model{Name: modelName(filepath.Join(abs, name)), version: abs}
			if b := backendOf[filepath.Ext(name)]; b == "fil" && name != "genai_config.json" { // whose files say no platform
				m.config = fmt.Sprintf("backend: %q\ndefault_model_filename: %q\n", b, name)
			}
			return m, nil
		}
	}
	if file := onlyFile(entries); file != "" {
		return modelOfFile(filepath.Join(abs, file))
	}
	return nil, ErrRepository
}

// onlyFile returns the one model file of a directory that has no directories and no
// other model file: what downloads of a single file leave. Text and JSON may be
// anything, and are no models here.
func onlyFile(entries []os.DirEntry) string {
	found := ""
	for _, e := range entries {
		ending := strings.ToLower(filepath.Ext(e.Name()))
		switch {
		case e.IsDir():
			return ""
		case strings.HasPrefix(e.Name(), ".") || backendOf[ending] == "" || ending == ".txt" || ending == ".json":
		case found != "":
			return ""
		default:
			found = e.Name()
		}
	}
	return found
}

// Named splits NAME=PATH, by which a model gets a name that is not its path's. A path
// that exists as it stands is one, whatever is in its name.
func Named(arg string) (name, path string) {
	if _, err := os.Stat(arg); err == nil {
		return "", arg
	}
	name, path, ok := strings.Cut(arg, "=")
	if !ok || name == "" || strings.HasPrefix(name, "-") || cleaned(name) != name {
		return "", arg
	}
	return name, path
}

// modelOfFile says how a single file is served. A file of a model directory
// brings that directory's configuration along.
func modelOfFile(abs string) (*Model, error) {
	if model := filepath.Dir(filepath.Dir(abs)); InVersion(abs) {
		if _, err := os.Stat(filepath.Join(model, "config.pbtxt")); err == nil {
			return &Model{Name: filepath.Base(model), Directory: model}, nil
		}
	}
	if filepath.Base(abs) == "genai_config.json" {
		return &Model{Name: modelName(abs), version: filepath.Dir(abs)}, nil
	}
	ending := strings.ToLower(filepath.Ext(abs))
	b := backendOf[ending]
	if hint := instead[ending]; hint != "" {
		return nil, fmt.Errorf("%s: %s", abs, hint)
	}
	if ending == ".py" && script.BindsCallables(abs) {
		return nil, fmt.Errorf("%s is a script that binds callables, which needs the Python package: 'pip install neso', and the 'neso' or "+
			"'python -m neso' of that environment. A model.py defines TritonPythonModel", abs)
	}
	if b == "" {
		return nil, fmt.Errorf("%s: what runs this file is not clear from its name; known endings: %s. Or put it into a model repository with "+
			"a config.pbtxt", abs, strings.Join(endings(), " "))
	}
	return &Model{
		Name: modelName(abs), version: filepath.Dir(abs),
		config: fmt.Sprintf("backend: %q\ndefault_model_filename: %s\n", b, quoted(filepath.Base(abs))),
	}, nil
}

func endings() []string {
	var all []string
	for e := range backendOf {
		all = append(all, e)
	}
	slices.Sort(all)
	return all
}

// InVersion reports whether a file lies in a directory that is named like a
// version.
func InVersion(abs string) bool {
	_, ok := layout.ParseVersion(filepath.Base(filepath.Dir(abs)))
	return ok
}

// modelName makes a name of a path: of the file, or of the directory where the
// file is called as its kind is.
func modelName(abs string) string {
	name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if name == "model" || name == "genai_config" || name == "xgboost" || name == "checkpoint" { // of which there is one in each directory
		if dir := filepath.Dir(abs); InVersion(abs) {
			name = filepath.Base(filepath.Dir(dir))
		} else {
			name = filepath.Base(dir)
		}
	}
	if name = cleaned(name); name == "" {
		return "model"
	}
	return name
}

// cleaned makes of a text what may be a model's name, or nothing.
func cleaned(text string) string {
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, text), ".")
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// IsDir reports whether a path is that of a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// repository makes a model repository below dir that holds the model: links to
// where it lies, so that files beside it are found.
func (m *Model) repository(dir string) error {
	place := filepath.Join(dir, m.Name)
	if m.Directory != "" {
		return link(m.Directory, place)
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	if m.config != "" {
		if err := os.WriteFile(filepath.Join(place, "config.pbtxt"), []byte(m.config), 0o600); err != nil {
			return err
		}
	}
	return link(m.version, filepath.Join(place, "1"))
}

// link makes a symbolic link, or a copy where the system refuses one.
func link(target, place string) error {
	err := os.Symlink(target, place)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.CopyFS(place, os.DirFS(target))
}

// Repository makes a repository of models that are named by
// themselves, below the system's temporary directory. Paths that are
// repositories are returned as they are, also behind a NAME=, which then names nothing.
func Repository(paths []string) (repositories []string, models []string, remove func(), err error) {
	remove = func() {}
	dir := ""
	taken := map[string]string{} // paths by the names of their models
	for _, path := range paths {
		name, path := Named(path)
		m, err := Read(path)
		if errors.Is(err, ErrRepository) {
			repositories = append(repositories, path)
			continue
		}
		if err == nil && dir == "" {
			var made *scratch.Dir
			if made, err = scratch.Make("neso-model-"); err == nil {
				dir = made.Path
				remove = func() { _ = made.Remove() } // links only: what they lead to stays
				repositories = append(repositories, dir)
			}
		}
		if err == nil && name != "" {
			m.Name = name
		}
		if err == nil && taken[m.Name] != "" {
			err = fmt.Errorf("%s and %s would both be the model '%s': rename one of them", taken[m.Name], path, m.Name)
		}
		if err == nil {
			taken[m.Name] = path
			err = m.repository(dir)
		}
		if err != nil {
			remove()
			return nil, nil, nil, err
		}
		models = append(models, m.Name)
	}
	return repositories, models, remove, nil
}
