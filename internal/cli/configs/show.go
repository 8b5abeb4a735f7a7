// Package configs owns `neso config`: what a model's configuration is, on disk and
// in a server. Open show.go first.
package configs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cli/backends"
	"github.com/nesoserve/neso/internal/cli/configcheck"
	"github.com/nesoserve/neso/internal/cli/modelpath"
	"github.com/nesoserve/neso/internal/cli/remote"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/repository/inspect"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/setting"
)

// Command is `neso config`, which prints to stdout; logs and hints go to stderr.
func Command(stdout, stderr io.Writer) *cobra.Command {
	c := remote.Config(stdout)
	c.AddCommand(configcheck.Command(stdout, backends.Directory), showCommand(stdout, stderr), initCommand(stdout))
	return c
}

func showCommand(stdout, stderr io.Writer) *cobra.Command {
	format, python, directory, load := "pbtxt", "", "", false
	c := &cobra.Command{
		Use:   "show MODEL",
		Short: "Print a configuration with all defaults filled in",
		Long: `Prints the configuration of a model directory, or of a configuration file,
with the defaults and names the server gives. With --load the model is loaded, and
what it adds itself (auto-completion) is in it too; a running server shows that at
/v2/models/<name>/config.`,
		Example: "  neso config show models/digits --format yaml\n  neso config show models/digits --load",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			read := func() (*modelconfig.Config, error) { return readConfig(args[0]) }
			if load {
				read = func() (*modelconfig.Config, error) {
					return loadedConfig(cmd.Context(), args[0], python, directory, stderr)
				}
			} else if completesItself(args[0]) {
				fmt.Fprintln(stderr, "The model adds to its configuration when it is loaded (auto_complete_config); --load shows all of it.")
			}
			config, err := read()
			if err != nil {
				return err
			}
			out, err := printConfig(config, format)
			if err != nil {
				return err
			}
			_, err = stdout.Write(out)
			return err
		},
	}
	c.Flags().StringVar(&format, "format", format, "pbtxt, json or yaml")
	c.Flags().BoolVar(&load, "load", load, "load the model, and show what it adds itself")
	c.Flags().StringVar(&python, "python", "", "with --load: interpreter of Python models, see neso serve")
	c.Flags().StringVar(&directory, "backend-directory", "", "with --load: where python-based backends lie")
	return c
}

// loadedConfig loads the model and returns what its configuration is then.
func loadedConfig(ctx context.Context, path, python, directory string, log io.Writer) (_ *modelconfig.Config, err error) {
	dir, err := modelpath.Directory(path)
	if err != nil {
		return nil, err
	}
	srv, err := modelpath.Load(ctx, dir, python, directory, nil, false, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	text, err := srv.ModelConfig(filepath.Base(dir), -1)
	if err != nil {
		return nil, err
	}
	draft, err := draft.ParseJSON(text, "")
	if err != nil {
		return nil, err
	}
	return draft.Finish()
}

// completesItself reports whether a version of the model has a model.py with an
// auto_complete_config.
func completesItself(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.py")) // the pattern is a good one
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("def auto_complete_config(")) {
			return true
		}
	}
	return false
}

// readConfig completes the configuration at path as far as that goes without
// loading the model.
func readConfig(path string) (*modelconfig.Config, error) {
	dir, file := filepath.Dir(path), path
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		if _, err := modelpath.Directory(path); err != nil {
			return nil, err
		}
		dir, file = path, filepath.Join(path, layout.Filename)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	config, err := complete(file, filepath.Base(abs), layout.FirstVersion(os.DirFS(dir)))
	if err != nil {
		return nil, allFaults(path, err)
	}
	return config, nil
}

func complete(file, name string, content map[string]bool) (*modelconfig.Config, error) {
	d := draft.New()
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		if d, err = draft.Parse(text, file); err != nil {
			return nil, err
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if err := d.CompleteBackend(name, content); err != nil {
		return nil, err
	}
	d.Normalize()
	if err := d.NormalizeInstances(gpu.Set{Least: gpu.DefaultLeast}, backend.Capabilities{}); err != nil {
		return nil, err
	}
	return d.Finish()
}

// allFaults returns the error of a configuration with all that neso config check
// tells of it, so that one round shows everything.
func allFaults(path string, err error) error {
	report, failed := inspect.Check(path, inspect.Options{Words: setting.Options})
	if failed != nil || len(report.Models) != 1 {
		return err
	}
	var own fault.List
	all := report.Models[0].Faults
	if errors.As(err, &own) && !slices.ContainsFunc(own, func(f fault.Fault) bool { return !slices.Contains(all, f) }) {
		return all // in the order of the file
	}
	return report.Models[0].With(err)
}

func printConfig(c *modelconfig.Config, format string) ([]byte, error) {
	switch format {
	case "pbtxt":
		return c.Text(), nil
	case "yaml":
		return c.YAML()
	case "json":
		var b bytes.Buffer
		err := json.Indent(&b, c.JSON(), "", "  ")
		b.WriteByte('\n')
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("--format %q: expected pbtxt, json or yaml", format)
}
