package modelconfig

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/spelling"
)

// Inspection says of what [Draft.Inspect] speaks.
type Inspection struct {
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
	Options CheckOptions
}

// inspector collects what there is to say of one draft.
type inspector struct {
	Inspection
	report ModelReport
	draft  *Draft
}

// Inspect returns everything that can be said of a draft without loading the
// model: what `neso config check` tells, and a load that fails. The faults come in
// the order in which the steps of a load would meet them. err is what [Parse] or
// [ParseJSON] returned with the draft: its faults come along, in the order of the
// file, and nothing is said that follows from the pieces left out. The draft
// cannot be used for anything else after; it may be nil, where nothing could be read.
func (d *Draft) Inspect(in Inspection, err error) ModelReport {
	c := &inspector{Inspection: in, report: ModelReport{Name: in.Name, Directory: in.Directory, Faults: asFaults(err)}, draft: d}
	if d == nil {
		return c.report
	}
	unread := len(c.report.Faults) > 0
	c.report.Faults.take(d.checkBackend(in.Name, os.DirFS(in.Directory)))
	c.validate(in.Strict, false)
	if !in.Custom {
		c.add(asFaults(d.CheckDirectory(in.Name))...)
		c.versions()
	}
	c.backend()
	c.instances()
	c.validate(true, true)
	c.advise()
	if !in.Custom {
		c.files()
	}
	if unread {
		c.report.Faults.sortByPlace()
	} else {
		c.report.Declared = d.View()
	}
	return c.report
}

// checkBackend completes the backend and the defaults. Where there is no
// backend, it says so, and validation then does not say it again.
func (d *Draft) checkBackend(name string, model fs.FS) Faults {
	faults := asFaults(d.CompleteBackend(name, model))
	if len(faults) > 0 {
		if d.gaps == nil {
			d.gaps = newGaps()
		}
		faults = d.gaps.own(faults)
		d.gaps.paths["backend"] = true
	}
	d.Normalize()
	return faults
}

func (c *inspector) hint(format string, args ...any) {
	c.report.Hints = append(c.report.Hints, fmt.Sprintf(format, args...))
}

// hintOf hints at a field, unless what the user wrote of it could not be read.
func (c *inspector) hintOf(path, format string, args ...any) {
	if !c.draft.gaps.explain(path) {
		c.hint(format, args...)
	}
}

// add adds the faults of a step that are new, but not those that follow from what
// the draft lacks since it could not be read: they have been said.
func (c *inspector) add(faults ...Fault) { c.report.Faults.takeNew(c.draft.gaps.own(faults)) }

// validate reports what is missing from inputs and outputs as hints where the
// backend may complete it.
func (c *inspector) validate(io, load bool) {
	pb := c.draft.pb
	completes := pb.Platform != platformEnsemble && !c.Strict
	for _, f := range c.draft.validate(io, load) {
		missing := strings.Contains(f.Text, " must specify 'data_type' for ") || strings.Contains(f.Text, " must specify 'dims' for ") ||
			len(pb.Input) == 0 && strings.HasPrefix(f.Text, "unknown source input name ") || len(pb.Output) == 0 && strings.HasPrefix(f.Text, "unknown target output name ")
		if completes && missing {
			if !c.draft.gaps.explain(f.Path) {
				c.hint("%s; loads only if the backend completes it", f.Error())
			}
			continue
		}
		c.add(f)
	}
}

// backend checks that the server has the backend, and knows the parameters.
func (c *inspector) backend() {
	name := c.draft.pb.Backend
	if len(c.Options.Backends) == 0 || name == "" {
		return
	}
	d := c.Options.Driver(name, c.draft.pb.Runtime)
	if d == nil {
		c.add(c.draft.UnknownBackend(c.Options.Backends)...)
		return
	}
	for _, p := range c.draft.UnknownParameters(d, c.Options.Parameters) {
		path := mapPath("parameters", p.Name)
		if p.Meant != "" {
			p.Meant = "; " + didYouMean(p.Meant)
		}
		c.report.Warnings = append(c.report.Warnings, c.draft.fault(path, "the backend '"+name+"' does not know the parameter '"+p.Name+"', which has no effect"+p.Meant, "", "").Error())
	}
}

// UnknownBackend is the fault of a backend that a server does not have.
func (d *Draft) UnknownBackend(have []string) Faults {
	name := d.pb.Backend
	f := d.fault("backend", "unable to find backend library for backend '"+name+"', try specifying runtime on the model configuration.",
		"one of "+strings.Join(slices.Sorted(slices.Values(have)), ", "), quote(name))
	if near := NearestBackend(name, have); near != "" {
		f.Hint = didYouMean(near)
	}
	var faults Faults
	faults.add(f)
	return faults
}

// UnknownParameter is a parameter of a model that nothing reads, and the one that
// may have been meant.
type UnknownParameter struct{ Name, Meant string }

// UnknownParameters returns the parameters, sorted, that neither the driver nor
// the server, which knows those in all, reads.
func (d *Draft) UnknownParameters(of *backend.Driver, all []string) []UnknownParameter {
	if of.Parameters == nil {
		return nil
	}
	known := slices.Concat(of.Parameters, all)
	var unknown []UnknownParameter
	for _, name := range d.Parameters() {
		if spelling.Known(name, known) {
			continue
		}
		if near := spelling.Nearest(name, known); near != "" || !of.OwnParameters {
			unknown = append(unknown, UnknownParameter{name, near})
		}
	}
	return unknown
}

// instances checks the groups: of a server that is not known, as on one that has
// every GPU asked for.
func (c *inspector) instances() {
	if c.GPUs != nil {
		c.add(asFaults(c.draft.NormalizeInstances(*c.GPUs, backend.Capabilities{}))...)
		return
	}
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

// With returns the error of a load with the report's faults that it does not tell.
func (r *ModelReport) With(err error) error {
	if faults := asFaults(err); faults != nil {
		all := slices.Clone(faults)
		all.takeNew(r.Faults)
		return all
	}
	e := backend.AsError(err)
	lines := []string{e.Message}
	told := -1 // the fault that the error is, without its place
	for i, f := range r.Faults {
		if told < 0 && f.Text == e.Message {
			told = i
			lines[0] = f.Error()
		}
	}
	for i, f := range r.Faults {
		if i == told {
			continue
		}
		if f.Text != "" && strings.Contains(e.Message, f.Text) || f.lacks != "" && strings.Contains(e.Message, f.lacks) {
			continue
		}
		lines = append(lines, f.Error())
	}
	if len(lines) == 1 && told < 0 {
		return err
	}
	return &backend.Error{Code: e.Code, Message: strings.Join(lines, "\n")}
}
