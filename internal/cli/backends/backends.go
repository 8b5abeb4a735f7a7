// Package backends owns `neso backends`, and where the user's own backend libraries
// lie.
package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/cli/modelpath"
	"github.com/nesoserve/neso/internal/setting"
)

// Command is `neso backends`, which prints to stdout; what pip says goes to stderr.
func Command(stdout, stderr io.Writer) *cobra.Command {
	var interpreter, directory string
	c := &cobra.Command{
		Use:   "backends",
		Short: "List what can run models: version, library, devices, or what to install",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0) // pads all but the last column, which is long
			fmt.Fprintln(w, "BACKEND\tVERSION\tDEVICES\tLIBRARY, OR WHAT TO INSTALL")
			for _, r := range all.Describe(cmd.Context(), all.Options{Python: interpreter, OptionPrefix: setting.Options}, Directory(directory)) {
				where := r.Library
				if r.Err != nil {
					where = r.Err.Error()
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Backend, r.Version, strings.Join(r.Devices, ", "), strings.ReplaceAll(where, "\n", " "))
			}
			return w.Flush()
		},
	}
	c.PersistentFlags().StringVar(&interpreter, "python", "", "the interpreter of Python models, in whose packages libraries are searched")
	c.PersistentFlags().StringVar(&directory, "backend-directory", "", "the directory of backend libraries (default: "+defaultDirectory()+")")
	c.AddCommand(addCommand(stdout, stderr, &interpreter, &directory))
	return c
}

func addCommand(stdout, stderr io.Writer, interpreter, directory *string) *cobra.Command {
	var wheel string
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Put a backend's library into the backend directory",
		Long: `Takes the library out of its Python wheel: out of the one that --wheel names, or
out of the one that pip fetches. Without --backend-directory the server finds it
by itself. Backends: ` + strings.Join(all.Libraries(), ", ") + ".",
		Example: "  neso backends add onnxruntime\n  neso backends add onnxruntime --wheel onnxruntime-1.20.1-cp311-manylinux_x86_64.whl",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := *directory
			if to == "" {
				to = defaultDirectory()
			}
			if to == "" {
				return errors.New("give --backend-directory: this user has no home directory")
			}
			install, err := all.Package(args[0])
			if err != nil {
				return err
			}
			if wheel == "" {
				dir, err := os.MkdirTemp("", "neso-wheel-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				if wheel, err = fetchWheel(cmd.Context(), stderr, *interpreter, install, dir); err != nil {
					return err
				}
			}
			files, err := all.Add(args[0], wheel, to)
			for _, f := range files {
				fmt.Fprintln(stdout, "wrote", f)
			}
			return err
		},
	}
	c.Flags().StringVar(&wheel, "wheel", "", "a wheel file that has the library")
	return c
}

// fetchWheel lets pip fetch the wheel of a package for this machine.
func fetchWheel(ctx context.Context, stderr io.Writer, interpreter, name, dir string) (string, error) {
	path, err := python.DefaultInterpreter(interpreter, setting.Options+"python")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--dest", dir, name)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("'%s -m pip download %s' failed (%w): give a wheel with --wheel", path, name, err)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) == 0 {
		return "", fmt.Errorf("pip fetched no wheel of %s for this machine", name)
	}
	return wheels[0], nil
}

// Directory is what was given, else the user's own if it exists.
func Directory(given string) string {
	if given != "" {
		return given
	}
	if dir := defaultDirectory(); dir != "" && modelpath.IsDir(dir) {
		return dir
	}
	return ""
}

// defaultDirectory is the user's own directory of backend libraries.
func defaultDirectory() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	switch data := os.Getenv("XDG_DATA_HOME"); {
	case runtime.GOOS == "windows" && os.Getenv("LocalAppData") != "":
		return filepath.Join(os.Getenv("LocalAppData"), "neso", "backends")
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "neso", "backends")
	case filepath.IsAbs(data):
		return filepath.Join(data, "neso", "backends")
	}
	return filepath.Join(home, ".local", "share", "neso", "backends")
}
