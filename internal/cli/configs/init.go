package configs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/cli/backends"
	"github.com/nesoserve/neso/internal/cli/modelpath"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/setting"
)

func initCommand(stdout io.Writer) *cobra.Command {
	var output, python, directory string
	var force, pickles bool
	c := &cobra.Command{
		Use:   "init PATH",
		Short: "Write a config.pbtxt for a model file, to edit",
		Long: `Loads the model file or model directory, completes its configuration from the
model itself and writes it: to config.pbtxt of the model's directory when the
file lies in one (<model>/<version>/<file>), else to standard output.`,
		Example: "  neso config init models/digits/1/model.onnx\n  neso config init model.onnx -o models/digits/config.pbtxt",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := modelpath.Read(args[0])
			if errors.Is(err, modelpath.ErrRepository) {
				_, err = modelpath.Directory(args[0]) // says what it is
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s does not exist: expected a model file or the directory of a model", args[0])
			}
			if err != nil {
				return err
			}
			config, err := inferConfig(cmd.Context(), m.Name, args[0], all.Options{Python: python}, backends.Directory(directory), pickles)
			if err != nil {
				return err
			}
			text, err := Text(config)
			if err != nil {
				return err
			}
			if output == "" {
				output = configPlace(args[0], m)
			}
			if output == "-" {
				_, err := stdout.Write(text)
				return err
			}
			if err := writeNew(output, text, force); err != nil {
				return err
			}
			fmt.Fprintln(stdout, "wrote", output)
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, - for standard output")
	c.Flags().BoolVar(&force, "force", false, "write over a file that exists")
	c.Flags().BoolVar(&pickles, "allow-pickle", false, "read a pickle, which may run any code, in a process of its own")
	c.Flags().StringVar(&python, "python", "", "the interpreter of Python models, in whose packages libraries are searched")
	c.Flags().StringVar(&directory, "backend-directory", "", "the directory searched for backend libraries")
	return c
}

// configPlace is where a configuration belongs: into the model's directory, or
// on standard output when there is none.
func configPlace(path string, m *modelpath.Model) string {
	if m.Directory != "" {
		return filepath.Join(m.Directory, "config.pbtxt")
	}
	if abs, err := filepath.Abs(path); err == nil && modelpath.InVersion(abs) {
		return filepath.Join(filepath.Dir(filepath.Dir(abs)), "config.pbtxt")
	}
	return "-"
}

func writeNew(path string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: give --force to write over it, or --output for another place", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// inferConfig loads a model in a server without front ends and returns its
// configuration as JSON. GPUs are left alone: what is written is for any machine.
func inferConfig(ctx context.Context, name, path string, o all.Options, directory string, pickles bool) (config []byte, err error) {
	repositories, _, remove, err := modelpath.Repository([]string{path})
	if err != nil {
		return nil, err
	}
	defer remove()
	s := &neso.Server{
		OptionPrefix:      setting.Options,
		ModelRepositories: repositories, Backends: all.Drivers(o), BackendDirectory: directory, GPU: neso.GPU{Disabled: true},
		BackendSettings: map[string]map[string]string{"": {"allow-pickle": strconv.FormatBool(pickles)}},
		ControlMode:     "explicit", StartupModels: []string{name}, Logger: slog.New(slog.DiscardHandler),
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	config, err = s.ModelConfig(name, -1)
	return config, errors.Join(err, s.Close())
}

// Text prints a configuration in the form of config.pbtxt.
func Text(config []byte) ([]byte, error) {
	draft, err := draft.ParseJSON(config, "")
	if err != nil {
		return nil, err
	}
	return draft.Text(), nil
}
