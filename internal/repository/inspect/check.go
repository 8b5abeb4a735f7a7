package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/read"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/setting"
)

// Options say what is known of the server that would load the models.
type Options struct {
	// Backends are the names of those that the server has; empty: backends,
	// runtimes and parameters are not looked at.
	Backends []string
	// Driver returns what runs a backend's models, or nil.
	Driver func(name, runtime string, folders []string) *backend.Driver
	// Parameters are those that the server itself reads, whatever the backend.
	Parameters []string
	// CheckParameter returns what a load says of the value of one of Parameters.
	CheckParameter func(c *modelconfig.Config, name string) error
	// Repositories are looked for the models of an ensemble's steps, besides its own.
	Repositories []string
	// Words are what messages call settings of the server.
	Words setting.Words
}

// Report is what [Check] found.
type Report struct {
	Models []Model
}

// Model is what [Check] found in one model.
type Model struct {
	Name string
	// Directory is the model's directory as the caller would name it.
	Directory string
	// Faults keep the model from loading.
	Faults fault.List
	// Warnings are what has no effect, and what the server warns of too.
	Warnings []string
	// Hints are things that load but are likely not meant, or that only the
	// server can tell.
	Hints []string
	// Declared is the configuration as far as the file says, nil where some of it
	// could not be read. Versions are those that would be served.
	Declared *modelconfig.Config
	Versions []int64
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

// Warned reports whether a model has a warning.
func (r Report) Warned() bool {
	for i := range r.Models {
		if len(r.Models[i].Warnings) > 0 {
			return true
		}
	}
	return false
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
		for _, w := range m.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", w)
		}
		for _, h := range m.Hints {
			fmt.Fprintf(&b, "  hint: %s\n", h)
		}
	}
	return b.String()
}

// Check checks a model's directory, a repository of models or a single
// configuration file, as far as that can be done without loading. The error
// is for a path that cannot be read, or is none of these.
func Check(path string, o Options) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, err
	}
	if !info.IsDir() {
		directory := filepath.Dir(path)
		return Report{[]Model{checkModel(directory, path, o)}}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return Report{}, err
	}
	if layout.IsModel(path, entries) {
		return Report{[]Model{checkModel(path, filepath.Join(path, layout.Filename), o)}}, nil
	}
	var report Report
	for _, e := range entries {
		if !layout.IsDirectory(os.DirFS(path), e) || layout.NoModel(e.Name()) {
			continue
		}
		directory := filepath.Join(path, e.Name())
		report.Models = append(report.Models, checkModel(directory, filepath.Join(directory, layout.Filename), o))
	}
	if len(report.Models) == 0 {
		return report, fmt.Errorf("%s has neither a %s nor directories of models", path, layout.Filename)
	}
	return report, nil
}

func checkModel(directory, file string, o Options) Model {
	name := filepath.Base(directory)
	if abs, err := filepath.Abs(directory); err == nil {
		name = filepath.Base(abs)
	}
	in := Subject{Name: name, Directory: directory, Shown: directory, Custom: filepath.Base(file) != layout.Filename, Options: o}
	d, err := readFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		report := Draft(draft.New(), in, nil)
		report.Hints = append([]string{"no " + layout.Filename + ": the backend has to supply the configuration"}, report.Hints...)
		report.checkRules()
		return report
	case err != nil && fault.Of(err) == nil:
		report := Model{Name: name, Directory: directory}
		report.Faults.Add(fault.Fault{File: file, Hint: err.Error()})
		return report
	}
	if in.Custom && d != nil && d.Name() != "" {
		in.Name = d.Name()
	}
	report := Draft(d, in, err)
	if !in.Custom {
		report.checkRules()
	}
	return report
}

// checkRules checks the file that says which version gets which requests, against the
// versions that would be served.
func (m *Model) checkRules() {
	file := filepath.Join(m.Directory, rollout.File)
	text, err := readBounded(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var rules rollout.Rules
	if err == nil {
		rules, err = rollout.Parse(text, file)
	}
	if err == nil && !rules.Empty() && len(m.Versions) > 0 {
		no := func(int64) bool { return false } // only a load can tell
		if _, err = rollout.Make(rules, nil, rollout.Subject{Versions: m.Versions, Sequences: no, Passes: no}); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		m.Faults.Add(fault.Fault{Text: err.Error()})
	}
}

// readFile parses a file as its name says.
func readFile(file string) (*draft.Draft, error) {
	text, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(file), ".json") {
		return draft.ParseJSON(text, file)
	}
	return draft.Parse(text, file)
}

func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > read.MaxSize {
		return nil, fmt.Errorf("expected a file of at most %d bytes", read.MaxSize)
	}
	return os.ReadFile(file)
}
