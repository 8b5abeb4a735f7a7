package python

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/processors"
)

// interpreter is a Python executable, and the root of the environment that it
// belongs to, or "".
type interpreter struct{ path, root string }

// Parameters of the model configuration.
const (
	paramEnvironment = "EXECUTION_ENV_PATH"
	paramForceCPU    = "FORCE_CPU_ONLY_INPUT_TENSORS"
	paramLimit       = "EXECUTION_TIMEOUT_SECONDS"
	paramWritable    = "WRITABLE_INPUTS"
	modelDirectory   = "$$TRITON_MODEL_DIRECTORY"
)

// interpreterFor returns the interpreter of the model.
func (d *driver) interpreterFor(cfg *backend.Config) (interpreter, error) {
	if path := d.environmentOf(cfg); path != "" {
		if rest, ok := strings.CutPrefix(path, modelDirectory); ok {
			path = filepath.Join(cfg.Directory, rest)
		}
		return d.envs.interpreter(path)
	}
	return defaultInterpreter(d.server.Option("python"), d.options.Python, os.Getenv("NESO_PYTHON"))
}

// DefaultInterpreter returns the path of the interpreter that runs models which
// name none: named if it is not empty, else as Options.Python says. The error
// says what to do where there is none, and calls the setting option.
func DefaultInterpreter(named, option string) (string, error) {
	found, err := defaultInterpreter(option, named, os.Getenv("NESO_PYTHON"))
	return found.path, err
}

// defaultInterpreter returns the first of: what the options name, what the
// environment names, the virtual environment of the working directory, python3.
func defaultInterpreter(option string, named ...string) (interpreter, error) {
	for _, name := range named {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return interpreter{}, backend.Errorf(backend.NotFound, "the Python interpreter '%s' %s", name, whyNot(name, err))
		}
		return absolute(path)
	}
	local := filepath.Join(".venv", "bin", "python")
	if runtime.GOOS == "windows" {
		local = filepath.Join(".venv", "Scripts", "python.exe")
	}
	if executable(local) {
		return absolute(local)
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return absolute(path)
		}
	}
	return interpreter{}, backend.Errorf(backend.NotFound,
		"no Python interpreter is found: install Python 3.9 or later with numpy, and name it with %s or NESO_PYTHON", option)
}

// whyNot says what keeps the interpreter at name from running, for which looking
// it up gave err. Those of virtual environments are links, whose file may be gone
// with an old Python, or lie where the server's user may not read.
func whyNot(name string, err error) string {
	target := name
	for range 10 { // a link to a link, and so on; no further than can be seen
		next, linkErr := os.Readlink(target)
		if linkErr != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(target), next)
		}
		target = next
	}
	link := ""
	if target != name {
		link = fmt.Sprintf(": it is a link to '%s'", target)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "may not be run by the server's user" + link
	case link != "":
		return "is not found" + link
	}
	return "is not found"
}

func absolute(path string) (interpreter, error) {
	path, err := filepath.Abs(path) // not resolved further: a venv is recognised by its link
	return interpreter{path: path}, err
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// threads is how many threads the numeric libraries of one worker may use: its
// share of the cores, so that workers do not fight for them.
func threads(instances int) int {
	return max(1, processors.Count()/max(1, instances))
}

var threadVariables = []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

// workerEnvironment returns the environment of a worker: the server's, with the
// thread counts unless the user has set them, and, for an environment of its
// own, what activating it would set.
func workerEnvironment(server []string, root string, threads int) []string {
	env := make([]string, 0, len(server)+6)
	set := map[string]bool{}
	path := ""
	for _, kv := range server {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = true
		switch {
		case root == "":
		case name == "PATH":
			path = value
			continue
		case name == "CONDA_PREFIX", name == "VIRTUAL_ENV", name == "PYTHONHOME":
			continue
		}
		env = append(env, kv)
	}
	if root != "" {
		env = append(env, "PATH="+filepath.Join(root, "bin")+string(os.PathListSeparator)+path, "CONDA_PREFIX="+root, "VIRTUAL_ENV="+root)
	}
	for _, name := range threadVariables {
		if !set[name] {
			env = append(env, name+"="+strconv.Itoa(threads))
		}
	}
	return env
}
