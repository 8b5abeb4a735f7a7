package tune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/overlay"
	"github.com/nesoserve/neso/internal/tune/report"
	"github.com/nesoserve/neso/internal/wholefile"
)

// conclude says and writes what comes of the searches, and applies it if asked to.
func (p *Plan) conclude(states []*checkpoint.State, env Env) error {
	var all []report.Outcome
	for _, s := range states {
		o, err := report.Of(s)
		if err != nil {
			return err
		}
		all = append(all, *o)
		o.Text(env.Stdout)
	}
	if err := write(all, p.Directory, p.CSV, p.Files, env); err != nil {
		return err
	}
	if !p.Apply {
		return nil
	}
	return apply(all, env.Stdout)
}

// write writes the page, the CSV files and the patch.
func write(all []report.Outcome, directory, csv string, files Files, env Env) error {
	if csv == "" {
		csv = filepath.Join(directory, "results")
	}
	if err := os.MkdirAll(csv, 0o755); err != nil {
		return err
	}
	named := func(name, usual string) string {
		if name == "" {
			name = usual
		}
		return filepath.Join(csv, name)
	}
	errs := []error{
		wholefile.Write(filepath.Join(directory, report.Page), func(w io.Writer) error { return report.HTML(w, all, env.Version) }),
		wholefile.Write(named(files.Inference, "metrics-model-inference.csv"), func(w io.Writer) error { return report.Inference(w, all) }),
		wholefile.Write(named(files.Server, "metrics-server-only.csv"), func(w io.Writer) error { return report.Server(w, all) }),
	}
	if report.HasGPUs(all) {
		errs = append(errs, wholefile.Write(named(files.GPU, "metrics-model-gpu.csv"), func(w io.Writer) error { return report.GPUs(w, all) }))
	}
	var patch strings.Builder
	for i := range all {
		for _, b := range all[i].Configs {
			patch.WriteString(b.Patch)
		}
	}
	errs = append(errs, wholefile.Bytes(filepath.Join(directory, "best.patch"), []byte(patch.String())))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "\nreport: %s\n", filepath.Join(directory, report.Page))
	return nil
}

// apply writes the best configurations that are winners.
func apply(all []report.Outcome, out io.Writer) error {
	for i := range all {
		o := &all[i]
		if !o.Verdict.Winner {
			fmt.Fprintf(out, "nothing is applied: %s\n", o.Verdict.Text)
			continue
		}
		for _, c := range o.Configs {
			if c.Patch == "" {
				continue
			}
			var was []byte
			if !c.Missing {
				was = []byte(c.Was)
			}
			backup, err := overlay.Apply(c.Directory, was, c.Now)
			if err != nil {
				return err
			}
			text := "written: " + filepath.Join(c.Directory, overlay.Filename)
			if backup != "" {
				text += ", the old one is " + filepath.Base(backup)
			}
			fmt.Fprintln(out, text)
		}
	}
	return nil
}

// Report writes the reports of a directory anew, from its checkpoint.
func Report(directory string, doApply bool, env Env) int {
	states, err := find(directory)
	if err == nil {
		p := &Plan{Directory: directory, Apply: doApply}
		err = p.conclude(states, env)
	}
	if err != nil {
		fmt.Fprintln(env.Stderr, "error:", measure.Plain(err.Error()))
		return exitFailed
	}
	return exitDone
}

// find reads the checkpoints of a directory: its own, or those of the directories in it.
func find(directory string) ([]*checkpoint.State, error) {
	s, err := checkpoint.Load(directory)
	if err != nil || s != nil {
		return []*checkpoint.State{s}, err
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var all []*checkpoint.State
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s, err := checkpoint.Load(filepath.Join(directory, e.Name()))
		if err != nil {
			return nil, err
		}
		if s != nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no %s: expected a directory that neso tune has written", directory, checkpoint.Filename)
	}
	return all, nil
}
