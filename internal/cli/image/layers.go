package image

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/image"
)

// layers makes what a build adds to its base.
type layers struct {
	*build
	dir      string
	change   *image.Change
	platform v1.Platform
	base     v1.Image
}

// add makes the server's, the packages' and the models' layers. What changes most
// often comes last, so that the others are kept wherever the image goes.
func (l *layers) add(ctx context.Context) error {
	if image.Label(l.base, image.LabelVersion) == "" || l.binary != "" {
		if err := l.addServer(); err != nil {
			return err
		}
	}
	if l.requirements != "" {
		if err := l.addPackages(ctx); err != nil {
			return err
		}
	}
	if l.models == "" {
		return nil
	}
	models := image.NewTree()
	if err := models.CopyDir("models", l.models, leaveOut); err != nil {
		return fmt.Errorf("--model-repository: %w", err)
	}
	return l.layer(models, "models")
}

// layer writes a tree as the next layer.
func (l *layers) layer(t *image.Tree, comment string) error {
	layer, err := t.Layer(l.dir, l.at)
	if err != nil {
		return fmt.Errorf("the layer of the %s: %w", comment, err)
	}
	l.change.Parts = append(l.change.Parts, image.Part{Layer: layer, Comment: comment})
	return nil
}

// addServer puts the program into an image that is not ours.
func (l *layers) addServer() error {
	file := l.binary
	if file == "" {
		var err error
		if file, err = os.Executable(); err != nil {
			return err
		}
	}
	if err := checkProgram(file, l.platform); err != nil {
		return fmt.Errorf("the base has no neso, and %w; --binary=FILE names one for %s", err, l.platform)
	}
	packages, err := image.GoPackages(file)
	if err != nil {
		return err
	}
	t := image.NewTree()
	if err := image.AddServer(t, file, packages, l.at); err != nil {
		return err
	}
	if err := l.layer(t, "server"); err != nil {
		return err
	}
	version := neso.Version()
	if l.binary != "" {
		version = packages[1].Version // what the module says of itself
	}
	image.Serve(l.change, version, "serve", "--model-repository=/models")
	return nil
}

// machines are the processors of platforms.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram says whether a file is a program for a platform.
func checkProgram(file string, p v1.Platform) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux (%w)", file, err)
	}
	defer f.Close()
	if f.Machine != machines[p.Architecture] {
		return fmt.Errorf("%s is a program for %s", file, f.Machine)
	}
	return nil
}

// addPackages installs the Python packages.
func (l *layers) addPackages(ctx context.Context) error {
	version := l.pythonVersion
	if version == "" {
		version = image.Label(l.base, image.LabelPython)
	}
	if version == "" { // as the official images of Python say
		parts := strings.SplitN(image.Variable(l.base, "PYTHON_VERSION"), ".", 3)
		version = strings.Join(parts[:min(len(parts), 2)], ".")
	}
	if version == "" {
		return fmt.Errorf("--requirements: the base says of no Python in it (label %s, variable PYTHON_VERSION): "+
			"expected one with Python, and --python-version if it says nothing", image.LabelPython)
	}
	r := &image.Requirements{File: l.requirements, Interpreter: l.python, Version: version, Platform: l.platform, Output: l.stderr}
	into := filepath.Join(l.dir, "python")
	if err := r.Install(ctx, into); err != nil {
		return fmt.Errorf("--requirements: %w", err)
	}
	if compiled, err := r.Compile(ctx, into); err != nil {
		return fmt.Errorf("--requirements: compiling: %w", err)
	} else if !compiled {
		fmt.Fprintf(l.stderr, "note: %s is no Python %s: the packages are not compiled, so workers start later\n", l.python, version)
	}
	t := image.NewTree()
	if err := t.CopyDir(image.SitePackages, into, nil); err != nil {
		return err
	}
	packages, err := t.PythonPackages()
	if err != nil {
		return err
	}
	list, err := image.SBOM("python-packages", l.at, packages)
	if err != nil {
		return err
	}
	if err := t.File(path.Join(image.SBOMDir, "python-packages.spdx.json"), 0o644, list); err != nil {
		return err
	}
	l.change.Env["PYTHONPATH"] = "/" + image.SitePackages
	return l.layer(t, "Python packages")
}

// sourceDate reads the variable by which builds are told the time.
func sourceDate(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: expected seconds since 1970, got %q", text)
	}
	return time.Unix(seconds, 0), nil
}
