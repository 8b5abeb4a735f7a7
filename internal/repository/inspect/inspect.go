package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
	"github.com/nesoserve/neso/internal/repository/layout"
)

// Subject is of what [Draft] speaks.
type Subject struct {
	// Name is that of the model, Directory where it lies, and Shown how that is
	// named in faults.
	Name, Directory, Shown string
	// Custom is set when the configuration is not the directory's config.pbtxt:
	// then the directory says nothing about the model.
	Custom bool
	// Strict says that no backend completes inputs and outputs.
	Strict bool
	// GPUs are those of the server; nil for those that the configuration asks for.
	GPUs    *gpu.Set
	Options Options
}

// inspector collects what there is to say of one draft.
type inspector struct {
	Subject
	report Model
	draft  *draft.Draft
	// config is the draft as it stands once its backend and its defaults are there.
	config *modelconfig.Config
}

// Draft returns everything that can be said of a draft without loading the
// model: what `neso config check` tells, and a load that fails. The faults come in
// the order in which the steps of a load would meet them. err is what [draft.Parse] or
// [draft.ParseJSON] returned with the draft: its faults come along, in the order of the
// file, and nothing is said that follows from the pieces left out. The draft
// cannot be used for anything else after; it may be nil, where nothing could be read.
func Draft(d *draft.Draft, of Subject, err error) Model {
	c := &inspector{Subject: of, report: Model{Name: of.Name, Directory: of.Directory, Faults: fault.Of(err)}, draft: d}
	if d == nil {
		return c.report
	}
	unread := len(c.report.Faults) > 0
	c.complete()
	c.validate(of.Strict, false)
	if !of.Custom {
		c.add(fault.Of(d.CheckDirectory(of.Name))...)
		c.versions()
	}
	c.backend()
	c.parameters()
	c.instances()
	c.validate(true, true)
	c.advise()
	if !of.Custom {
		c.files()
	}
	if unread {
		c.report.Faults.SortByPosition()
	} else {
		c.report.Declared = d.View()
	}
	return c.report
}

// complete completes the backend and the defaults. Where there is no
// backend, it says so, and validation then does not say it again.
func (c *inspector) complete() {
	faults := fault.Of(c.draft.CompleteBackend(c.Name, layout.FirstVersion(os.DirFS(c.Directory))))
	if len(faults) > 0 {
		if !c.draft.Unread(platform.Fields...) {
			c.report.Faults.Take(faults)
		}
		c.draft.SetUnread("backend")
	}
	c.draft.Normalize()
	c.config = c.draft.View()
}

func (c *inspector) hint(format string, args ...any) {
	c.report.Hints = append(c.report.Hints, fmt.Sprintf(format, args...))
}

// hintOf hints at a field, unless what the user wrote of it could not be read.
func (c *inspector) hintOf(path, format string, args ...any) {
	if !c.draft.Unread(path) {
		c.hint(format, args...)
	}
}

// add adds the faults of a step that are new, but not those of a field that could not
// be read: that has been said.
func (c *inspector) add(faults ...fault.Fault) {
	c.report.Faults.TakeNew(slices.DeleteFunc(faults, func(f fault.Fault) bool { return c.draft.Unread(f.Path) }))
}

// validate reports what is missing from inputs and outputs as hints where the
// backend may complete it.
func (c *inspector) validate(tensors, load bool) {
	completes := c.config.Platform != platform.Ensemble && !c.Strict
	for _, f := range c.draft.Check(tensors, load) {
		missing := strings.Contains(f.Text, " must specify 'data_type' for ") || strings.Contains(f.Text, " must specify 'dims' for ") ||
			len(c.config.Inputs) == 0 && strings.HasPrefix(f.Text, "unknown source input name ") || len(c.config.Outputs) == 0 &&
			strings.HasPrefix(f.Text, "unknown target output name ")
		if completes && missing {
			if !c.draft.Unread(f.Path) {
				c.hint("%s; loads only if the backend completes it", f.Error())
			}
			continue
		}
		c.add(f)
	}
}

// folders are where a library of the model's own may lie: of all its versions.
func (c *inspector) folders() []string {
	if c.Directory == "" {
		return nil
	}
	versions, _ := filepath.Glob(filepath.Join(c.Directory, "[0-9]*"))
	return append(versions, c.Directory)
}

// backend checks that the server has the backend, and knows the parameters.
func (c *inspector) backend() {
	name := c.draft.Backend()
	if len(c.Options.Backends) == 0 || name == "" {
		return
	}
	d := c.Options.Driver(name, c.draft.Runtime(), c.folders())
	if d == nil {
		if !c.draft.Unread(platform.Fields...) {
			c.add(c.draft.UnknownBackend(c.Options.Backends)...)
		}
		return
	}
	for _, p := range c.draft.UnknownParameters(d, c.Options.Parameters) {
		path := fault.Entry("parameters", p.Name)
		if p.Meant != "" {
			p.Meant = "; " + fault.DidYouMean(p.Meant)
		}
		c.report.Warnings = append(c.report.Warnings, c.draft.Fault(path,
			"the backend '"+name+"' does not know the parameter '"+p.Name+"', which has no effect"+p.Meant, "", "").Error())
	}
}

// parameters checks the values, as the server and the backend do in a load.
func (c *inspector) parameters() {
	config := c.config
	var driver *backend.Driver
	if len(c.Options.Backends) > 0 && config.Backend != "" {
		driver = c.Options.Driver(config.Backend, c.draft.Runtime(), c.folders())
	}
	of := &backend.Config{Name: config.Name, Directory: c.Directory, Decoupled: config.Decoupled, Parameters: config.Parameters}
	for _, name := range c.draft.Parameters() {
		var err error
		if c.Options.CheckParameter != nil && slices.Contains(c.Options.Parameters, name) {
			err = c.Options.CheckParameter(config, name)
		} else if driver != nil && driver.CheckParameter != nil {
			err = driver.CheckParameter(of, name)
		}
		if err != nil {
			e := backend.AsError(err)
			f := c.draft.Fault(fault.Entry("parameters", name), e.Message, "", "")
			f.Code = e.Code
			c.add(f)
		}
	}
}

// instances checks the groups: of a server that is not known, as on one that has
// every GPU asked for.
func (c *inspector) instances() {
	if c.GPUs != nil {
		c.add(fault.Of(c.draft.NormalizeInstances(*c.GPUs, backend.Capabilities{}))...)
		return
	}
	gpus := gpu.Set{Least: gpu.DefaultLeast}
	asked := false
	for _, g := range c.config.Groups {
		asked = asked || g.Kind == "KIND_GPU"
		for _, id := range g.GPUs {
			gpus.Devices = append(gpus.Devices, gpu.Device{Number: id})
		}
	}
	if asked {
		c.hint("KIND_GPU loads only on a server with GPUs; KIND_AUTO takes what there is")
		gpus.Devices = append(gpus.Devices, gpu.Device{})
	}
	c.add(fault.Of(c.draft.NormalizeInstances(gpus, backend.Capabilities{}))...)
}

// With returns the error of a load with the report's faults that it does not tell.
func (r *Model) With(err error) error {
	if faults := fault.Of(err); faults != nil {
		all := slices.Clone(faults)
		all.TakeNew(r.Faults)
		return all
	}
	e := backend.AsError(err)
	lines := strings.Split(e.Message, "\n")
	told := map[int]bool{} // the faults that the lines are, without their place
	for i, f := range r.Faults {
		if at := slices.Index(lines, f.Text); at >= 0 && f.Text != "" {
			told[i] = true
			lines[at] = f.Error()
		}
	}
	for i, f := range r.Faults {
		if told[i] {
			continue
		}
		if f.Text != "" && strings.Contains(e.Message, f.Text) || f.Lacks != "" && strings.Contains(e.Message, f.Lacks) {
			continue
		}
		lines = append(lines, f.Error())
	}
	if len(told) == 0 && strings.Join(lines, "\n") == e.Message {
		return err
	}
	return &backend.Error{Code: e.Code, Message: strings.Join(lines, "\n")}
}
