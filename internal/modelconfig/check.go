package modelconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
)

// Filename is the name of a configuration in a model's directory.
const Filename = "config.pbtxt"

// Report is what [Check] found.
type Report struct {
	Models []ModelReport
}

// ModelReport is what [Check] found in one model.
type ModelReport struct {
	Name string
	// Directory is the model's directory as the caller would name it.
	Directory string
	// Faults keep the model from loading.
	Faults Faults
	// Hints are things that load but are likely not meant, or that only the
	// server can tell.
	Hints []string
}

// OK reports whether no model has a fault.
func (r Report) OK() bool {
	for i := range r.Models {
		if len(r.Models[i].Faults) > 0 {
			return false
		}
	}
	return true
}

// String prints the report, model by model.
func (r Report) String() string {
	var b strings.Builder
	for i := range r.Models {
		m := &r.Models[i]
		switch n := len(m.Faults); n {
		case 0:
			fmt.Fprintf(&b, "%s: ok\n", m.Name)
		case 1:
			fmt.Fprintf(&b, "%s: 1 fault\n", m.Name)
		default:
			fmt.Fprintf(&b, "%s: %d faults\n", m.Name, n)
		}
		for _, f := range m.Faults {
			fmt.Fprintf(&b, "  %s\n", f.Error())
		}
		for _, h := range m.Hints {
			fmt.Fprintf(&b, "  hint: %s\n", h)
		}
	}
	return b.String()
}

// Check checks a model's directory, a repository of models or a single
// configuration file, as far as that can be done without a backend. The error
// is for a path that cannot be read.
func Check(path string) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, err
	}
	if !info.IsDir() {
		directory := filepath.Dir(path)
		return Report{[]ModelReport{checkModel(directory, path)}}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return Report{}, err
	}
	if isModel(entries) {
		return Report{[]ModelReport{checkModel(path, filepath.Join(path, Filename))}}, nil
	}
	var report Report
	for _, e := range entries {
		if !isDirectory(os.DirFS(path), e) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		directory := filepath.Join(path, e.Name())
		report.Models = append(report.Models, checkModel(directory, filepath.Join(directory, Filename)))
	}
	if len(report.Models) == 0 {
		return report, fmt.Errorf("%s has neither a %s nor directories of models", path, Filename)
	}
	return report, nil
}

// isModel reports whether a directory is a model rather than a repository.
func isModel(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if _, version := ParseVersion(e.Name()); version || e.Name() == Filename {
			return true
		}
	}
	return false
}

// checker checks one model.
type checker struct {
	ModelReport
	draft *Draft
	// custom is set when the file is not the directory's config.pbtxt: then the
	// directory says nothing about the model.
	custom bool
}

func checkModel(directory, file string) ModelReport {
	name := filepath.Base(directory)
	if abs, err := filepath.Abs(directory); err == nil {
		name = filepath.Base(abs)
	}
	c := &checker{ModelReport: ModelReport{Name: name, Directory: directory}, custom: filepath.Base(file) != Filename}
	if c.read(file) {
		c.run()
	}
	return c.ModelReport
}

func (c *checker) hint(format string, args ...any) {
	c.Hints = append(c.Hints, fmt.Sprintf(format, args...))
}

// hintOf hints at a field, unless what the user wrote of it could not be read.
func (c *checker) hintOf(path, format string, args ...any) {
	if !c.draft.gaps.explain(path) {
		c.hint(format, args...)
	}
}

// read parses the file. It reports false when there is nothing to go on with.
func (c *checker) read(file string) bool {
	text, err := readBounded(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.draft = NewDraft()
		c.hint("no %s: the backend has to supply the configuration", Filename)
		return true
	case err != nil:
		c.Faults.add(Fault{File: file, Hint: err.Error()})
		return false
	}
	parse := Parse
	if strings.EqualFold(filepath.Ext(file), ".json") {
		parse = ParseJSON
	}
	c.draft, err = parse(text, file)
	c.Faults.take(asFaults(err))
	return c.draft != nil
}

func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxSize {
		return nil, fmt.Errorf("expected a file of at most %d bytes", MaxSize)
	}
	return os.ReadFile(file)
}

// add adds the faults of a step, but not those that follow from what the draft
// lacks since it could not be read: they have been said.
func (c *checker) add(faults ...Fault) { c.Faults.take(c.draft.gaps.own(faults)) }

func (c *checker) run() {
	d := c.draft
	if c.custom && d.pb.Name != "" {
		c.Name = d.pb.Name
	}
	unread := len(c.Faults) > 0
	c.Faults.take(d.checkBackend(c.Name, os.DirFS(c.Directory)))
	c.validate()
	if !c.custom {
		c.add(asFaults(d.CheckDirectory(c.Name))...)
	}
	c.instances()
	c.advise()
	if !c.custom {
		c.versions()
		c.files()
	}
	if unread {
		c.Faults.sortByPlace()
	}
}

// validate reports what is missing from inputs and outputs as hints where the
// backend may complete it.
func (c *checker) validate() {
	completes := c.draft.pb.Platform != platformEnsemble
	for _, f := range c.draft.gaps.own(c.draft.validate(true, true)) {
		if completes && (strings.Contains(f.Text, " must specify 'data_type' for ") || strings.Contains(f.Text, " must specify 'dims' for ")) {
			c.hint("%s; loads only if the backend completes it", f.Error())
			continue
		}
		c.add(f)
	}
}

// instances checks the groups as on a machine that has every GPU asked for:
// which GPUs the server will have is not the configuration's fault.
func (c *checker) instances() {
	gpus := gpu.Set{Least: gpu.DefaultLeast}
	asked := false
	for _, g := range c.draft.pb.InstanceGroup {
		asked = asked || g.Kind.String() == "KIND_GPU"
		for _, id := range g.Gpus {
			gpus.Devices = append(gpus.Devices, gpu.Device{Number: int(id)})
		}
	}
	if asked {
		c.hint("KIND_GPU loads only on a server with GPUs; KIND_AUTO takes what there is")
		gpus.Devices = append(gpus.Devices, gpu.Device{})
	}
	c.add(asFaults(c.draft.NormalizeInstances(gpus, backend.Capabilities{}))...)
}
