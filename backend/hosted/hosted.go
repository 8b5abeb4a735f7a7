// Package hosted is the list of backends whose models are files of a Python
// framework, run by worker processes: PyTorch, TensorFlow, scikit-learn and
// TensorRT. It owns what the server knows of each without starting a worker:
// names, files, what to install. The rest is neso_worker.frameworks, in Python,
// and backend/python, which runs the workers. Open table.go first.
package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/internal/modelfile"
	"github.com/nesoserve/neso/backend/python"
)

// Drivers returns the backends of the table.
func Drivers(o python.Options) []backend.Driver {
	all := make([]backend.Driver, 0, len(table)+1)
	for i := range table {
		f := &table[i]
		all = append(all, python.NewHosted(o, python.Hosted{
			Name: f.backend, Preload: f.preload, Settings: f.settings, Parameters: f.parameters,
			Files: f.names, Check: f.check, UsesGPU: func() bool { return f.usesGPU(o) },
		}))
	}
	return append(all, dali())
}

// usesGPU looks for the framework's code for NVIDIA GPUs, which packages for the
// CPU lack. An interpreter that a model names for itself is not asked: its
// configuration can write KIND_GPU.
func (f *framework) usesGPU(o python.Options) bool {
	switch f.cuda {
	case "":
		return false
	case ".":
		return true
	}
	interpreter := func() (string, error) { return python.DefaultInterpreter(o.Python, "") }
	return library.PackageHas(interpreter, f.cuda) && (f.withoutCUDA == "" || !library.PackageHas(interpreter, f.withoutCUDA))
}

// check finds the model's file.
func (f *framework) check(cfg *backend.Config, settings *backend.Settings) (string, error) {
	names := f.files
	if cfg.Filename != "" {
		names = append([]string{cfg.Filename}, f.instead(cfg.Filename)...)
	}
	for _, name := range names {
		path, err := modelfile.Path(cfg, name)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", backend.Errorf(backend.Unavailable, "unable to read '%s' of model '%s'", name, cfg.Name)
		case !info.IsDir() && info.Size() == 0:
			return "", backend.Errorf(backend.InvalidArg, "'%s/%d/%s' is not a model of the backend '%s': it is empty: write the model again",
				cfg.Name, cfg.Version, name, f.backend)
		}
		if f.refuse != nil {
			if err := f.refuse(cfg, name, settings); err != nil {
				return "", err
			}
		}
		return path, nil
	}
	return "", backend.Errorf(backend.Unavailable, "unable to find '%s/%d/%s' for model '%s': put the model there under this name, or write "+
		"default_model_filename (the backend '%s' knows %s)",
		cfg.Name, cfg.Version, names[0], cfg.Name, f.backend, strings.Join(f.files, ", "))
}

// instead are the names under which a model may lie that the configuration, or
// its completion by the backend's name, calls otherwise.
func (f *framework) instead(name string) []string {
	if slices.Contains(f.files, name) {
		return f.files
	}
	return nil
}

// Reports says of each backend whether the interpreter has its package.
func Reports(ctx context.Context, o python.Options, server backend.Settings) []library.Report {
	reports := make([]library.Report, len(table))
	path, err := python.DefaultInterpreter(o.Python, server.Option("python"))
	found := map[string]string{}
	if err == nil {
		found = versions(ctx, path)
	}
	for i := range table {
		f, r := &table[i], &reports[i]
		r.Backend = f.backend
		switch version := found[f.distribution]; {
		case err != nil:
			r.Err = err
		case version == "":
			r.Err = backend.Errorf(backend.Unavailable, "%s does not have %s: '%s -m pip install %s'", path, f.module, path, f.install)
		default:
			r.Version, r.Library, r.Devices = version, f.module+" of "+path, f.devices
			if !f.usesGPU(o) {
				r.Devices = []string{"CPU"} // what is installed was built for it
			}
		}
	}
	return reports
}

// versions asks an interpreter for the packages of the table. It reads their
// metadata: importing some of them takes seconds.
func versions(ctx context.Context, interpreter string) map[string]string {
	var names []string
	for i := range table {
		names = append(names, table[i].distribution)
	}
	asked, _ := json.Marshal(names)
	const script = `import json, sys
from importlib import metadata
found = {}
for name in json.loads(sys.argv[1]):
    for part in name.split("|"):
        try:
            found.setdefault(name, metadata.version(part))
        except metadata.PackageNotFoundError:
            pass
print(json.dumps(found))`
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, "-c", script, string(asked)).Output()
	found := map[string]string{}
	if err != nil || json.Unmarshal(out, &found) != nil {
		return map[string]string{}
	}
	return found
}

// dali is a backend of Triton that Neso does not have: its models say so at
// load, and what to use.
func dali() backend.Driver {
	open := func(_ context.Context, _ backend.Host, s backend.Settings) (backend.Backend, error) {
		return nil, backend.Errorf(backend.Unsupported,
			"backend 'dali' is not there: NVIDIA DALI pipelines (model.dali) need Triton's own backend. "+
				"Decode and scale in a Python model in place of it (backend: \"python\", for example with Pillow, OpenCV or nvidia-dali's own "+
				"pipelines in initialize), and put it in front of the network with an ensemble; or put libtriton_dali.so into %s: "+
				"docs/models/native-backends.md", s.Option("backend-directory"))
	}
	return backend.Driver{Name: "dali", Explains: true, Open: open}
}
