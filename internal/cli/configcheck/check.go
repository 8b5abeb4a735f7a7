// Package configcheck owns `neso config check`: what a server would say of models
// and their configurations, without one. Open check.go, and
// internal/repository/inspect for the faults.
package configcheck

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/model"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/repository/inspect"
	"github.com/nesoserve/neso/internal/scheduler/ensemble"
	"github.com/nesoserve/neso/internal/setting"
)

// ErrFaults says that faults, or with --strict warnings, have been printed.
var ErrFaults = errors.New("configurations with faults")

// Command is `neso config check`, which prints to out. backends returns the
// backend directory for what --backend-directory says.
func Command(out io.Writer, backends func(string) string) *cobra.Command {
	strict, directory := false, ""
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "Report every fault of models, repositories or config.pbtxt files",
		Long: `Reports every fault at once, each with file, line, field and what was expected:
those that a server tells when it loads the model, but for what only the model's
own file knows (neso config show --load). PATH is a model directory, a model
repository, or a configuration file; models of an ensemble are searched in its
own repository and in every PATH.

  fault     keeps the model from loading
  warning   has no effect, as a parameter that the backend does not know
  hint      loads, and is likely not meant, or depends on the server

Exit status 0 without faults, 1 with one, or when a PATH cannot be read; with
--strict also 1 with a warning.`,
		Example: "  neso config check models\n  neso config check --strict models/digits/config.pbtxt",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, paths []string) error {
			ok, err := Check(out, paths, backends(directory), strict)
			if err == nil && !ok {
				err = ErrFaults
			}
			return err
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "exit with status 1 for a warning too")
	c.Flags().StringVar(&directory, "backend-directory", "", "where python-based backends lie, as for neso serve")
	return c
}

// Check prints what is wrong with the models of the paths; python-based backends are
// looked for in directory. It reports whether all is well, with strict whether there is
// no warning either.
func Check(out io.Writer, paths []string, directory string, strict bool) (ok bool, err error) {
	o := inspect.Options{Parameters: model.Parameters, CheckParameter: model.CheckParameter, Repositories: paths, Words: setting.Options}
	drivers := all.Drivers(all.Options{})
	for i := range drivers {
		if drivers[i].Finds == nil {
			o.Backends = append(o.Backends, drivers[i].Name)
		}
	}
	o.Driver = func(name, runtime string, folders []string) *backend.Driver {
		return driverOf(drivers, backend.Lookup{Backend: name, Runtime: runtime, Folders: folders, Directory: directory})
	}
	reports := make([]inspect.Report, 0, len(paths))
	var unread []error
	for _, path := range paths {
		report, err := inspect.Check(path, o)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s does not exist", path)
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("%w: expected a model directory, a model repository, or a configuration file", err))
		}
		reports = append(reports, report)
	}
	ok = true
	for _, report := range reports {
		for i := range report.Models {
			checkSteps(&report.Models[i], paths, o)
		}
		fmt.Fprint(out, report.String())
		ok = ok && report.OK() && (!strict || !report.Warned())
	}
	return ok, errors.Join(unread...)
}

// driverOf returns the driver that a server takes for a backend, or nil: a custom
// backend of the backend directory comes first.
func driverOf(drivers []backend.Driver, look backend.Lookup) *backend.Driver {
	var found *backend.Driver
	for i := range drivers {
		d := &drivers[i]
		if d.Implements != nil && d.Implements(look.Backend, look.Directory, look.Runtime) {
			return d
		}
		if d.Name == look.Backend {
			found = d
		}
	}
	if look.BuiltIn = found != nil && !found.Explains; look.BuiltIn && look.Runtime == "" {
		return found
	}
	for i := range drivers {
		if d := &drivers[i]; d.Finds != nil && d.Finds(look) {
			return d
		}
	}
	return found
}

// checkSteps adds to the report of an ensemble what does not fit the models of its
// steps, as far as their files say.
func checkSteps(m *inspect.Model, repositories []string, o inspect.Options) {
	if m.Declared == nil || m.Declared.Ensemble == nil {
		return
	}
	unknown := map[string]bool{}
	parts := map[string]*inspect.Model{}
	for _, step := range m.Declared.Ensemble.Steps {
		part := findModel(step.Model, append([]string{filepath.Join(m.Directory, "..")}, repositories...), o)
		// What a backend would complete is not known here.
		if part == nil || part.Declared == nil || len(part.Declared.Inputs) == 0 || len(part.Declared.Outputs) == 0 {
			unknown[step.Model] = true
			continue
		}
		parts[step.Model] = part
	}
	lookup := func(name string, version int64) *modelconfig.Config {
		part := parts[name]
		if part == nil || version != -1 && !slices.Contains(part.Versions, version) {
			return nil
		}
		return part.Declared
	}
	for _, text := range ensemble.Faults(m.Declared, lookup, unknown) {
		m.Faults = append(m.Faults, fault.Fault{Code: backend.InvalidArg, Text: text})
	}
}

// findModel reads a model of one of the repositories, or returns nil.
func findModel(name string, repositories []string, o inspect.Options) *inspect.Model {
	if !filepath.IsLocal(name) {
		return nil
	}
	for _, repository := range repositories {
		directory := filepath.Join(repository, name)
		if info, err := os.Stat(directory); err != nil || !info.IsDir() {
			continue
		}
		report, err := inspect.Check(directory, o)
		if err != nil || len(report.Models) != 1 {
			return nil
		}
		return &report.Models[0]
	}
	return nil
}
