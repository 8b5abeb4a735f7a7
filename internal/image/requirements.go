package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Requirements installs Python packages for an image with this machine's pip, without
// running anything of theirs.
type Requirements struct {
	File        string // as for pip install -r
	Interpreter string // of this machine, with pip
	Version     string // of the image's Python, such as 3.11
	Platform    v1.Platform
	Output      io.Writer // what pip says
}

// pythonVersion is what may stand for the version of Python.
var pythonVersion = regexp.MustCompile(`^3\.\d{1,2}$`)

// glibcs are the C libraries of which wheels tell that they suit, as minor versions of
// 2: those that manylinux names, up to Debian 12's.
var glibcs = []string{"2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5"}

// Install puts the packages into dir. Only wheels are taken: what must be compiled
// would be compiled for this machine.
func (r *Requirements) Install(ctx context.Context, dir string) error {
	if !pythonVersion.MatchString(r.Version) {
		return fmt.Errorf("expected a version of Python such as 3.11, got %q", r.Version)
	}
	if _, err := os.Stat(r.File); err != nil {
		return err
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[r.Platform.Architecture]
	args := []string{
		"-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile", "--ignore-installed", "--no-warn-conflicts",
		"--target", dir, "--only-binary=:all:", "--implementation=cp", "--python-version=" + r.Version, "--requirement", r.File,
	}
	for _, v := range glibcs {
		args = append(args, "--platform=manylinux_"+v+"_"+machine)
	}
	for _, name := range []string{"manylinux2014_", "manylinux2010_", "manylinux1_", "linux_"} {
		args = append(args, "--platform="+name+machine)
	}
	c := exec.CommandContext(ctx, r.Interpreter, args...)
	c.Stdout, c.Stderr = r.Output, r.Output
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%w: the packages of %s are installed by a Python with pip", err, r.File)
		}
		return fmt.Errorf("pip could not install what %s names as wheels for Python %s on %s: %w", r.File, r.Version, r.Platform, err)
	}
	// Commands of packages start with the path of this machine's Python.
	return os.RemoveAll(filepath.Join(dir, "bin"))
}

// Compile writes the compiled form of the Python files below dir, if the interpreter
// is of the image's version: the image's own files cannot be written. It says whether
// it did.
func (r *Requirements) Compile(ctx context.Context, dir string) (bool, error) {
	out, err := exec.CommandContext(ctx, r.Interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		return false, err
	}
	if runtime.GOOS != "linux" || strings.TrimSpace(string(out)) != r.Version {
		return false, nil
	}
	// Of the files' content and not of their times, so that the bytes are the same
	// tomorrow. What does not compile is for another Python, and stays as it is.
	c := exec.CommandContext(ctx, r.Interpreter, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash",
		"-s", dir, "-p", path.Join("/", SitePackages), dir)
	c.Env = append(os.Environ(), "PYTHONHASHSEED=0")
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	return err == nil, err
}

// SitePackages is where an image keeps the packages that a user asks for. A variable
// PYTHONPATH leads there, so that it is found by every interpreter.
const SitePackages = "opt/neso/python"
