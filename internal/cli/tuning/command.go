// Package tuning owns the command line of `neso tune`: its options, and the plan that
// they make. Open command.go first, then options.go.
package tuning

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/cli/terminal"
	"github.com/nesoserve/neso/internal/tune"
)

// ExitError is the status of a command that has said all there is to say.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

func status(code int) error {
	if code != 0 {
		return &ExitError{code}
	}
	return nil
}

// environment is what the command sees of the world.
func environment(out, errs io.Writer, version string) (tune.Env, error) {
	binary, err := os.Executable()
	e := tune.Env{Stdout: out, Stderr: errs, Version: version, Binary: binary, Terminal: terminal.Is(errs), Serve: serve}
	for _, d := range all.Isolatable(all.Options{}) {
		e.Isolatable = append(e.Isolatable, d.Name)
	}
	return e, err
}

// serve is the command line of a server, behind the program's name.
func serve(repository string, models []string) []string {
	args := []string{
		"serve", "--model-repository=" + repository, "--model-control-mode=explicit", "--http-address=127.0.0.1", "--http-port=0",
		"--grpc-address=127.0.0.1", "--grpc-port=0", "--metrics-address=127.0.0.1", "--metrics-port=0", "--exit-timeout-secs=10",
	}
	for _, m := range models {
		args = append(args, "--load-model="+m)
	}
	return args
}

// Command is `neso tune`.
func Command(out, errs io.Writer, version string) *cobra.Command {
	o := &Options{}
	c := &cobra.Command{
		Use:   "tune --model-repository=DIR --model=NAME [options] [-- OPTIONS OF neso perf]",
		Short: "Find the best configuration of a model, by measuring servers of its own",
		Long: `Starts servers with changed configurations of the model, each in a directory of its
own, measures them under load, and says which is the best, with the patch for its
config.pbtxt. The model repository is not touched, unless --apply says so. What was
measured is kept in --output: the same command goes on where it ended.`,
		Example: "  neso tune --model-repository=models --model=digits --objective=throughput --latency-budget=20ms@p99\n" +
			"  neso tune --model-repository=models --model=digits --search=brute --instances=1,2,4 --max-batch-size=8,32 -- --shape IMAGE:8,8\n" +
			"  neso tune report neso-tune --apply",
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return fmt.Errorf("neso tune takes no arguments but options of neso perf behind --, got %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Perf, o.changed = args, cmd.Flags().Changed
			e, err := environment(out, errs, version)
			if err != nil {
				return err
			}
			p, err := o.Plan()
			if err != nil {
				return err
			}
			return status(tune.Main(cmd.Context(), p, e))
		},
	}
	o.Flags(c.Flags())
	c.AddCommand(reportCommand(out, errs, version))
	return c
}

func reportCommand(out, errs io.Writer, version string) *cobra.Command {
	apply := false
	c := &cobra.Command{
		Use:   "report [DIR]",
		Short: "Write the reports of neso tune anew from what was measured, and apply the best configuration",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := environment(out, errs, version)
			if err != nil {
				return err
			}
			directory := usualDirectory
			if len(args) > 0 {
				directory = args[0]
			}
			return status(tune.Report(directory, apply, e))
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "write the best configuration into the model repository, if it is a winner")
	return c
}
