// Package cli owns the neso command: flags and subcommands, on the public
// packages. Open root.go first, then serve.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/cli/backends"
	"github.com/nesoserve/neso/internal/cli/configcheck"
	"github.com/nesoserve/neso/internal/cli/configs"
	"github.com/nesoserve/neso/internal/cli/doctor"
	"github.com/nesoserve/neso/internal/cli/image"
	"github.com/nesoserve/neso/internal/cli/key"
	"github.com/nesoserve/neso/internal/cli/remote"
	"github.com/nesoserve/neso/internal/cli/testmodel"
	"github.com/nesoserve/neso/internal/cli/tuning"
	"github.com/nesoserve/neso/internal/spelling"
)

// Env is what a command sees of the world.
type Env struct {
	Args           []string // the program's name first
	Stdout, Stderr io.Writer
}

// exitError is an error whose text is already printed.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// Main runs the command and returns its exit status. `neso --model-repository=...`
// and a link named tritonserver mean `neso serve`, one named serve `neso sagemaker`,
// one named perf_analyzer `neso perf`.
func Main(ctx context.Context, env Env) int {
	args := env.Args[1:]
	name := strings.TrimSuffix(filepath.Base(env.Args[0]), ".exe")
	if name == "serve" { // what the cloud starts a container with
		return serveSagemaker(ctx, env, args)
	}
	if name == "perf_analyzer" {
		return runPerf(ctx, env, args, name)
	}
	asTriton := name == "tritonserver"
	if !asTriton && len(args) > 0 && args[0] == "tritonserver" { // as containers of Triton's are given a command
		asTriton, args = true, args[1:]
	}
	if asTriton || len(args) > 0 && strings.HasPrefix(args[0], "--") && args[0] != "--help" && args[0] != "--version" {
		return serve(ctx, env, args, asTriton)
	}
	root := rootCommand(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exitError); ok { //nolint:errorlint // made here, never wrapped
		return exit.code
	}
	if exit, ok := err.(*tuning.ExitError); ok { //nolint:errorlint // never wrapped
		return exit.Code
	}
	for _, said := range []error{remote.ErrNotReady, configcheck.ErrFaults, testmodel.ErrFailed, doctor.ErrMissing} {
		if errors.Is(err, said) {
			return 1
		}
	}
	fmt.Fprintln(env.Stderr, "neso:", err)
	return 1
}

// checkModels says what is wrong with a repository that becomes a part of an image.
func checkModels(out io.Writer, repository string) (bool, error) {
	return configcheck.Check(out, []string{repository}, backends.Directory(""), false)
}

// rootCommand is `neso` with all its commands.
func rootCommand(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "neso",
		Short:         "An inference server: models of any framework over HTTP and gRPC",
		Version:       neso.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.AddCommand(serveCommand(env), sagemakerCommand(env), configs.Command(env.Stdout, env.Stderr),
		testmodel.Command(env.Stdout, env.Stderr), backends.Command(env.Stdout, env.Stderr), isolateCommand(), confineCommand(),
		versionCommand(env), protoCommand(env))
	root.AddCommand(doctor.Command(env.Stdout), key.Command(env.Stdout), perfCommand(env),
		tuning.Command(env.Stdout, env.Stderr, neso.Version()))
	root.AddCommand(image.Command(env.Stdout, env.Stderr, checkModels))
	root.AddCommand(remote.Commands(env.Stdout)...)
	explainUsage(root)
	return root
}

// explainUsage has mistakes in a command line say what is expected.
func explainUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%s\nUsage: %s ('%s --help' says more)", explainFlag(c, err), c.UseLine(), c.CommandPath())
	})
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err != nil && !c.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command") {
				err = fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0])
			}
			if err != nil {
				err = fmt.Errorf("%w\nUsage: %s", err, c.UseLine())
			}
			return err
		}
	}
	for _, sub := range c.Commands() {
		explainUsage(sub)
	}
}

// explainFlag says of a flag that is not known which may have been meant, and of a
// value what was expected.
func explainFlag(c *cobra.Command, err error) string {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := spelling.Nearest(name, names); near != "" {
			text += ", did you mean --" + near + "?"
		}
		return text
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		expected := "expected a number"
		if number.Func == "ParseBool" {
			expected = "expected true or false"
		}
		text = strings.Replace(text, number.Error(), expected, 1)
	}
	return text
}

func serveCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:                "serve [PATH...] --model-repository=DIR [options]",
		Short:              "Serve the models of a repository, or single model files",
		DisableFlagParsing: true, // tritonserver's rules, see parse.go
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, o := range serveTable() {
				name := "--" + o.name
				if o.kind != "" {
					name += "="
				}
				names = append(names, name)
			}
			return names, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := serve(cmd.Context(), env, args, false); code != 0 {
				return &exitError{code}
			}
			return nil
		},
	}
}

func versionCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(env.Stdout, neso.Version())
			return err
		},
	}
}
