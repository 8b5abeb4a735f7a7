package hosted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/python"
	pyfiles "github.com/nesoserve/neso/python"
)

func find(t *testing.T, name string) *framework {
	t.Helper()
	for i := range table {
		if table[i].backend == name {
			return &table[i]
		}
	}
	t.Fatalf("no backend %s", name)
	return nil
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, backend, filename string
		files                   map[string]string
		settings                map[string]string
		want, fault             string
	}{
		{name: "first known name", backend: "pytorch", files: map[string]string{"model.pt2": "x", "model.py": "x"}, want: "model.pt2"},
		{
			name: "another of the backend's names", backend: "pytorch", filename: "model.pt", files: map[string]string{"model.py": "x"},
			want: "model.py",
		},
		{
			name: "a name of the user's", backend: "pytorch", filename: "net.pth", files: map[string]string{"net.pth": "x", "model.pt": "x"},
			want: "net.pth",
		},
		{
			name: "the user's name is not there", backend: "pytorch", filename: "net.pth", files: map[string]string{"model.pt": "x"},
			fault: "unable to find 'm/3/net.pth' for model 'm'",
		},
		{
			name: "nothing", backend: "tensorflow",
			fault: "the backend 'tensorflow' knows model.savedmodel, model.graphdef, model.keras, model.tflite",
		},
		{
			name: "empty", backend: "tensorrt", files: map[string]string{"model.plan": ""},
			fault: "'m/3/model.plan' is not a model of the backend 'tensorrt': it is empty",
		},
		{name: "out of the directory", backend: "pytorch", filename: "../../other/1/model.pt", fault: "leads out of the version directory"},
		{
			name: "pickle", backend: "sklearn", files: map[string]string{"model.joblib": "x"},
			fault: "is a pickle, which can run any code when it is read: it is refused",
		},
		{name: "pickle by another name", backend: "sklearn", filename: "m.PKL", files: map[string]string{"m.PKL": "x"}, fault: "allow-pickle"},
		{name: "what may be a pickle", backend: "sklearn", filename: "m.dat", files: map[string]string{"m.dat": "x"}, fault: "allow-pickle"},
		{name: "no ending", backend: "sklearn", filename: "m", files: map[string]string{"m": "x"}, fault: "allow-pickle"},
		{name: "skops in capitals", backend: "sklearn", filename: "m.SKOPS", files: map[string]string{"m.SKOPS": "x"}, want: "m.SKOPS"},
		{
			name: "not allowed", backend: "sklearn", files: map[string]string{"model.pkl": "x"},
			settings: map[string]string{"allow-pickle": "false"}, fault: "allow-pickle",
		},
		{
			name: "allowed", backend: "sklearn", files: map[string]string{"model.joblib": "x"}, settings: map[string]string{"allow-pickle": "true"},
			want: "model.joblib",
		},
		{name: "skops", backend: "sklearn", files: map[string]string{"model.skops": "x"}, want: "model.skops"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cfg := &backend.Config{Name: "m", Version: 3, VersionDirectory: dir, Filename: c.filename}
			path, err := find(t, c.backend).check(cfg, &backend.Settings{Values: c.settings})
			if c.fault == "" {
				if err != nil || path != filepath.Join(dir, c.want) {
					t.Fatalf("got %q, %v, want %s", path, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v, want %q without the directory", err, c.fault)
			}
		})
	}
}

func TestDriversOfTheTable(t *testing.T) {
	names := map[string]bool{}
	for _, d := range Drivers(python.Options{}) {
		names[d.Name] = true
	}
	for _, want := range []string{"pytorch", "tensorflow", "sklearn", "tensorrt", "dali"} {
		if !names[want] {
			t.Errorf("no driver %s", want)
		}
	}
}

func TestDaliSaysWhatToUse(t *testing.T) {
	_, err := dali().Open(t.Context(), nil, backend.Settings{})
	var told *backend.Error
	if !errors.As(err, &told) || told.Code != backend.Unsupported || !strings.Contains(told.Message, `backend: "python"`) {
		t.Fatalf("got %v", err)
	}
}

func TestReports(t *testing.T) {
	for _, r := range Reports(t.Context(), python.Options{Python: "no-such-python"}, backend.Settings{}) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "no-such-python") {
			t.Errorf("%s: got %v", r.Backend, r.Err)
		}
	}
}

// TestUsesGPU: what is installed says whether a framework can use a GPU.
func TestUsesGPU(t *testing.T) {
	site := t.TempDir()
	interpreter := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(interpreter, []byte("#!/bin/sh\necho "+site+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ add, uses string }{
		{"torch/lib/libtorch_cpu.so", "tensorrt"},
		{"torch/lib/libtorch_cuda.so", "pytorch tensorrt"},
		{"nvidia/cudnn/__init__.py", "pytorch tensorflow tensorrt"},
		{"tensorflow_cpu-2.21.0.dist-info/METADATA", "pytorch tensorrt"},
	} {
		path := filepath.Join(site, filepath.FromSlash(step.add))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var uses []string
		for i := range table {
			if table[i].usesGPU(python.Options{Python: interpreter}) {
				uses = append(uses, table[i].backend)
			}
		}
		if got := strings.Join(uses, " "); got != step.uses {
			t.Errorf("with %s: got %s, want %s", step.add, got, step.uses)
		}
	}
}

// TestParametersAreThoseThatTheWorkerReads: the server warns of others.
func TestParametersAreThoseThatTheWorkerReads(t *testing.T) {
	read := map[string]string{} // by name the file that names it
	reads := regexp.MustCompile(`(?:\.(?:parameter|flag|number)\(|^ +\()"([A-Za-z_]+)"`)
	var sources strings.Builder
	for _, module := range []string{"pytorch", "torchfiles", "tensorflow", "tflite", "sklearn", "tensorrt", "host"} {
		text, err := fs.ReadFile(pyfiles.Worker, "neso_worker/frameworks/"+module+".py")
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
		for _, m := range reads.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = module
		}
	}
	if len(read) < 10 {
		t.Errorf("only %d names were found", len(read))
	}
	known := map[string]bool{}
	for i := range table {
		for _, name := range table[i].parameters {
			known[name] = true
			if !strings.HasSuffix(name, "*") && !strings.Contains(sources.String(), `"`+name+`"`) {
				t.Errorf("%s does not read '%s'", table[i].backend, name)
			}
		}
	}
	for name, module := range read {
		if !known[name] {
			t.Errorf("%s.py reads '%s', of which the server warns", module, name)
		}
	}
}
